# kinora_build_commit: a library of one small generated file, the values of engine/base/version.h. It is written anew, and
# nothing else compiled, when git has another commit: the list of what HEAD was says so to the build.
#
# As a script (cmake -DOUT=FILE -DSOURCE=FOLDER -DCOMMIT=TEXT -DVERSION=TEXT -DCUDA=KIND -P) it writes that file; an empty
# COMMIT is git's.
if(CMAKE_SCRIPT_MODE_FILE)
  if(NOT COMMIT)
    execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(BACKENDS "cpu")
  if(CUDA STREQUAL "nvcc")
    set(BACKENDS "cpu, cuda")
  elseif(CUDA STREQUAL "emulated")
    set(BACKENDS "cpu, cuda (simulated)")
  endif()
  file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[// Written by cmake/BuildCommit.cmake.
#include "engine/base/version.h"

namespace kinora {
const char kBuildVersion[] = "@VERSION@";
const char kBuildCommit[] = "@COMMIT@";
const char kBuildBackends[] = "@BACKENDS@";
}
]])  # untouched if it says so already
  return()
endif()

set(KINORA_COMMIT "" CACHE STRING "What the programs say they are made of; needed where there is no git")
if(KINORA_COMMIT AND NOT KINORA_COMMIT MATCHES "^[A-Za-z0-9._+-]+$")
  message(FATAL_ERROR "KINORA_COMMIT is \"${KINORA_COMMIT}\": letters, digits and . _ + - are needed")
endif()
set(heads)
if(NOT KINORA_COMMIT)
  foreach(name HEAD logs/HEAD packed-refs)
    execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --path-format=absolute --git-path ${name}
                    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_VARIABLE error)
    if(failed AND NOT KINORA_SERVER)
      set(KINORA_COMMIT unknown)  # nothing compares it
      break()
    elseif(failed)
      message(FATAL_ERROR "git does not know the commit of ${CMAKE_SOURCE_DIR}; give it with "
                          "-DKINORA_COMMIT=COMMIT: frontend and workers compare it. git said: ${error}")
    endif()
    if(EXISTS ${path})
      list(APPEND heads ${path})
    endif()
  endforeach()
endif()

add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/build_commit.cc
  COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/build_commit.cc -DSOURCE=${CMAKE_SOURCE_DIR}
          -DCOMMIT=${KINORA_COMMIT} -DVERSION=${PROJECT_VERSION} -DCUDA=${KINORA_CUDA} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${heads} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
add_library(kinora_build_commit ${CMAKE_CURRENT_BINARY_DIR}/build_commit.cc)
