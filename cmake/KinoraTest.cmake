find_package(GTest REQUIRED)
include(GoogleTest)

# kinora_test(NAME SRCS file... LIBS target...) builds one GoogleTest binary and registers it with CTest as one test,
# so that a binary pays its start-up once. Tests find committed data through KINORA_SOURCE_DIR.
function(kinora_test name)
  cmake_parse_arguments(T "" "" "SRCS;LIBS" ${ARGN})
  add_executable(${name} ${T_SRCS})
  target_link_libraries(${name} PRIVATE ${T_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE KINORA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  # For a test that hangs, so that the rest still run. Whole pipelines on the simulated device take minutes, and five
  # times as long on a machine that does other things beside.
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS ${folder})
endfunction()

# kinora_python_with(MODULE RESULT): an interpreter that has the module, or "". One of a virtual environment or of another
# version may stand before Debian's and lack it.
function(kinora_python_with module result)
  foreach(python python3 /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import ${module}, sys; print(sys.executable)" RESULT_VARIABLE failed
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed EQUAL 0)
      set(${result} ${found} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()
