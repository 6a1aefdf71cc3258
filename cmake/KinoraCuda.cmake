# KINORA_CUDA=off|emulated|nvcc: without CUDA; its kernels compiled by the host's compiler for the simulated device of
# tests/simt; compiled by nvcc.
set(KINORA_CUDA off CACHE STRING "off, emulated (the simulated device, for tests) or nvcc")
set_property(CACHE KINORA_CUDA PROPERTY STRINGS off emulated nvcc)

if(NOT KINORA_CUDA MATCHES "^(off|emulated|nvcc)$")
  message(FATAL_ERROR "KINORA_CUDA is \"${KINORA_CUDA}\": off, emulated or nvcc is needed")
endif()

if(NOT KINORA_CUDA STREQUAL "off")
  # The simulated device has the kernels of the same ones.
  set(KINORA_CUDA_ARCHS 80-real 90a-real 100a-real 120a-real CACHE STRING "What nvcc compiles the kernels for")
  foreach(architecture ${KINORA_CUDA_ARCHS})
    if(NOT architecture MATCHES "^[0-9]+[af]?(-real|-virtual)?$")
      message(FATAL_ERROR "KINORA_CUDA_ARCHS names \"${architecture}\": a number is needed, as in 90a-real or 120-virtual")
    endif()
  endforeach()
  set(wheels ${CMAKE_SOURCE_DIR}/third_party)
  set(toolkit $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  find_path(KINORA_CUDA_RUNTIME_INCLUDE cuda_runtime.h HINTS ${toolkit} ${wheels}/cuda-runtime/nvidia/cu13/include)
  find_path(KINORA_CUDA_CRT_INCLUDE crt/host_config.h HINTS ${toolkit} ${wheels}/cuda-crt/nvidia/cu13/include)
  if(NOT KINORA_CUDA_RUNTIME_INCLUDE OR NOT KINORA_CUDA_CRT_INCLUDE)
    message(FATAL_ERROR "KINORA_CUDA=${KINORA_CUDA} needs the toolkit's headers: scripts/install-deps --cuda, or CUDA_HOME")
  endif()
  set(KINORA_CUDA_INCLUDE ${KINORA_CUDA_RUNTIME_INCLUDE} ${KINORA_CUDA_CRT_INCLUDE})
  list(REMOVE_DUPLICATES KINORA_CUDA_INCLUDE)
  # For ranges in profilers; builds without it have none.
  find_path(KINORA_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${toolkit} ${wheels}/cuda-nvtx/nvidia/cu13/include)
  # cuDNN's headers and those over them: nvcc builds need both; emulated ones test plans where both are.
  find_path(KINORA_CUDNN_INCLUDE cudnn.h HINTS ${toolkit})
  find_path(KINORA_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${wheels}/cudnn-frontend/include
            PATHS /usr/local/share/kinora/cudnn-frontend/include)
endif()
if(KINORA_CUDA STREQUAL "nvcc")
  # CCCL, which nvcc finds by itself, and the host's compiler for what cudnn_frontend.cc includes does not.
  find_path(KINORA_CUDA_CCCL_INCLUDE nv/target HINTS ${toolkit} ${wheels}/cuda/include PATH_SUFFIXES cccl)
  if(NOT KINORA_CUDA_CCCL_INCLUDE)
    message(FATAL_ERROR "KINORA_CUDA=nvcc needs nv/target of CCCL: scripts/install-deps --cuda=nvcc, or CUDA_HOME")
  endif()
  if(NOT KINORA_CUDNN_FRONTEND_INCLUDE)
    message(FATAL_ERROR "KINORA_CUDA=nvcc needs the headers of cudnn-frontend: scripts/install-deps --cuda")
  endif()
  if(NOT KINORA_CUDNN_INCLUDE)
    message(FATAL_ERROR "KINORA_CUDA=nvcc needs cudnn.h: install cudnn9-cuda-13, or set KINORA_CUDNN_INCLUDE to its folder")
  endif()
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin ${wheels}/cuda/bin)
  set(CMAKE_CUDA_ARCHITECTURES ${KINORA_CUDA_ARCHS})
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "(.*)-real" "sm_\\1" OUTPUT_VARIABLE KINORA_CUDA_CODE)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has it.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# How .cu files of the current folder are compiled.
function(kinora_cuda_sources)
  if(KINORA_CUDA STREQUAL "emulated")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-Wno-unknown-pragmas")
  else()
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA COMPILE_OPTIONS "-Werror=all-warnings;--compress-mode=size")
  endif()
endfunction()

# Adds engine/ops/cuda/cudnn_frontend.cc, which alone sees those headers, to a target of any folder.
function(kinora_cudnn_frontend target)
  set(file ${CMAKE_SOURCE_DIR}/engine/ops/cuda/cudnn_frontend.cc)
  target_sources(${target} PRIVATE ${file})
  set(cccl)
  if(KINORA_CUDA_CCCL_INCLUDE)
    set(cccl ";-isystem;${KINORA_CUDA_CCCL_INCLUDE}")
  endif()
  set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON
    INCLUDE_DIRECTORIES "${KINORA_CUDNN_INCLUDE}"
    COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    COMPILE_OPTIONS "-O1;-isystem;${KINORA_CUDNN_FRONTEND_INCLUDE}${cccl}")
endfunction()
