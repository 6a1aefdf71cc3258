# What most files of a part of the tree include from elsewhere, parsed once (docs/decisions.md "Measuring and testing"). Files
# include what they use all the same: clang-tidy and the analysis of threads compile them without.
option(KINORA_PRECOMPILED "Precompile the headers of other projects" OFF)
# More flags for parts of the tree, those of the server and the tests with KINORA_PRECOMPILED only. The sanitized builds set
# them: code that need not be fast, or whose faults they do not look for, compiles in a fraction of the time.
set(KINORA_MODEL_FLAGS "" CACHE STRING "Flags for engine/weights and what lies above it")
set(KINORA_SERVER_FLAGS "" CACHE STRING "Flags for the libraries in server/")
set(KINORA_TEST_FLAGS "" CACHE STRING "Flags for the programs in tests/, but for tests/bench, fuzz, kernels and simt")
set(KINORA_GENERATED_FLAGS "" CACHE STRING "Flags for what protoc generates")

if(KINORA_PRECOMPILED)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)  # of all alike, as precompiled headers ask
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("SHELL:$<$<COMPILE_LANGUAGE:CXX>:-Xclang -fno-pch-timestamp>")  # so that ccache may keep them
  endif()
  if(CCACHE)
    # As precompiled headers need it; no file of ours asks for the time.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_LAUNCHER} CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endif()

# kinora_precompiled(NAME HEADERS header... [LIBS target...] [OPTIONS option...])
function(kinora_precompiled name)
  cmake_parse_arguments(P "" "" "HEADERS;LIBS;OPTIONS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled/${name}.cc "")  # a target has a source
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  target_link_libraries(${name} PRIVATE ${P_LIBS})
  target_compile_options(${name} PRIVATE ${P_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS})
endfunction()

# kinora_reuse_precompiled(NAME TYPE FLAGS folder...): by every target of that type in the folders and below; of executables
# by the tests. FLAGS are those of the headers beyond everyone's.
function(kinora_reuse_precompiled name type flags)
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(is ${target} TYPE)
      get_target_property(links ${target} LINK_LIBRARIES)
      if(is STREQUAL ${type} AND (NOT is STREQUAL EXECUTABLE OR links MATCHES GTest))
        target_precompile_headers(${target} REUSE_FROM ${name})
        target_compile_options(${target} PRIVATE ${flags})
      endif()
    endforeach()
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    kinora_reuse_precompiled(${name} ${type} "${flags}" ${below})
  endforeach()
endfunction()

# At the end of the tree, when all targets are there.
function(kinora_precompile)
  if(NOT KINORA_PRECOMPILED)
    return()
  endif()
  set(engine <algorithm> <cmath> <cstdint> <cstring> <functional> <map> <memory> <optional> <string> <string_view> <utility> <vector>
      <absl/functional/function_ref.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/time/time.h>
      <absl/types/span.h>)
  kinora_precompiled(kinora_engine_headers HEADERS ${engine} LIBS absl::statusor)
  kinora_reuse_precompiled(kinora_engine_headers STATIC_LIBRARY "" ${CMAKE_SOURCE_DIR}/engine)
  if(KINORA_SERVER)
    set(server ${engine} <absl/strings/str_format.h> <absl/synchronization/mutex.h> <grpcpp/grpcpp.h> <kinora/v1/config.pb.h>
        <kinora/v1/video_generation.pb.h> <kinora/v1/worker.pb.h>)
    kinora_precompiled(kinora_server_headers HEADERS ${server} LIBS kinora_proto gRPC::grpc++ OPTIONS ${KINORA_SERVER_FLAGS})
    kinora_reuse_precompiled(kinora_server_headers STATIC_LIBRARY "${KINORA_SERVER_FLAGS}" ${CMAKE_SOURCE_DIR}/server)
  endif()
  if(NOT KINORA_TESTS)
    return()
  endif()
  set(tests <gmock/gmock.h> <gtest/gtest.h>)
  get_property(folders DIRECTORY ${CMAKE_SOURCE_DIR}/tests PROPERTY SUBDIRECTORIES)
  list(FILTER folders EXCLUDE REGEX "/(bench|fuzz|kernels|server|simt)$")
  kinora_precompiled(kinora_test_headers HEADERS ${tests} ${engine} LIBS GTest::gmock OPTIONS -fPIE ${KINORA_TEST_FLAGS})
  set_target_properties(kinora_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  kinora_reuse_precompiled(kinora_test_headers EXECUTABLE "${KINORA_TEST_FLAGS}" ${folders})
  if(KINORA_SERVER)
    kinora_precompiled(kinora_server_test_headers HEADERS ${tests} ${server} LIBS GTest::gmock kinora_proto gRPC::grpc++ OPTIONS -fPIE ${KINORA_TEST_FLAGS})
    set_target_properties(kinora_server_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    kinora_reuse_precompiled(kinora_server_test_headers EXECUTABLE "${KINORA_TEST_FLAGS}" ${CMAKE_SOURCE_DIR}/tests/server)
  endif()
endfunction()
