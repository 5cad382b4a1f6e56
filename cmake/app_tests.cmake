# Tests of the program, and tests that start the program.
if(NOT ZERO_TESTS)
  return()
endif()
zero_tests(launch ROOMS base device comm launch)
zero_tests(config ROOMS base device plan comm memory optim engine checkpoint config)
zero_tests(issues APART torch ROOMS base device recorded_device plan comm memory optim engine checkpoint data config)
include(fuzz_seeds)
# Over 20 s: most tests start the command with libtorch, which takes a second. The slow ones train every example in
# every mode.
zero_tests(cli FOLDERS report/page APART other_build no_fp16 ROOMS recorded_device ${program_rooms} LIBS zero_core
           SHARDS 3 SLOW FULL)
if(TARGET zero_cli_test)
  target_sources(zero_cli_test PRIVATE $<TARGET_OBJECTS:zero_build_name_own>)
  # Libraries of another build, which the command must refuse.
  foreach(library zero_app zero_core)
    add_library(other_${library} MODULE "${PROJECT_SOURCE_DIR}/tests/cli/other_build/${library}.cpp")
    set_target_properties(other_${library} PROPERTIES OUTPUT_NAME ${library}
                          LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/other_build")
    add_dependencies(zero_cli_test other_${library})
  endforeach()
  # A libtorch without fp16 in one operator, which the command must refuse.
  if(ZERO_WITH_TORCH)
    add_library(no_fp16_gelu MODULE "${PROJECT_SOURCE_DIR}/tests/cli/no_fp16/gelu.cpp")
    target_link_libraries(no_fp16_gelu PRIVATE zero_flags zero_libtorch)
    set_target_properties(no_fp16_gelu PROPERTIES OUTPUT_NAME gelu
                          LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/no_fp16")
    add_dependencies(zero_cli_test no_fp16_gelu)
  endif()
endif()
# Tests that run the built command, including verbs with libtorch.
foreach(folder cli parity)
  if(TARGET zero_${folder}_test AND TARGET zero_executable)
    add_dependencies(zero_${folder}_test zero_executable)
    target_compile_definitions(zero_${folder}_test PRIVATE
      ZERO_MPIRUN="$<$<BOOL:${mpi_FOUND}>:${ZERO_MPIRUN}>"
      ZERO_CAN_TRAIN=$<BOOL:${ZERO_WITH_TORCH}>
      ZERO_HAS_GLOO=$<TARGET_EXISTS:zero_transport_gloo>)
  endif()
endforeach()
# The page of `zero report`, in a browser if there is one.
if(ZERO_TESTS AND TARGET zero_executable)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    foreach(test page page_charts)
      add_test(NAME ${test} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/tools/${test}_test.py
               --verbose --zero $<TARGET_FILE:zero_executable>)
      set_tests_properties(${test} PROPERTIES LABELS slow COST 60 SKIP_RETURN_CODE 77 TIMEOUT 900)
    endforeach()
  endif()
endif()
# Benchmarks that are also tests: 5.4 GB of state in 2.5 GiB of memory, and states that move because of another program.
# Both need a control group. Without one they are skipped.
if(ZERO_WITH_TORCH AND TARGET zero_executable)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_test(NAME capacity COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/benchmarks/capacity.py
      --preset 0.35b --steps 2 --zero $<TARGET_FILE:zero_executable>)
    add_test(NAME balloon COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/benchmarks/balloon.py
      --steps 80 --layers 6 --width 384 --cap 620MiB --balloon 200MiB
      --zero $<TARGET_FILE:zero_executable>)
    set_tests_properties(capacity balloon PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 900 RUN_SERIAL ON)
  endif()
endif()
include(fault_tests)
