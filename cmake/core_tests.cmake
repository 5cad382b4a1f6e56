add_library(zero_test_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
target_link_libraries(zero_test_pch PUBLIC zero_flags GTest::gtest rapidcheck)
target_precompile_headers(zero_test_pch PRIVATE <cmake/test_pch.h>)
zero_compile_as_test(zero_test_pch -O1)

# A device that runs work late and finds races, for tests of device, memory, optim, engine, checkpoint and the program.
file(GLOB recorded_device CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/device/*.cpp")
zero_joined(recorded_device joined ${recorded_device})
add_library(zero_recorded_device OBJECT ${joined})
target_link_libraries(zero_recorded_device PUBLIC zero_flags PRIVATE zero_sanitizers)
target_precompile_headers(zero_recorded_device REUSE_FROM zero_core_pch)

# One program for each folder, or for several (FOLDERS). ROOMS lists the rooms that the tests may use.
zero_tests(base ROOMS base)
zero_tests(device ROOMS base device recorded_device)
zero_tests(plan ROOMS base plan SLOW)
zero_tests(comm APART transport/fake_nccl ROOMS base device plan comm SLOW)
zero_tests(memory ROOMS base device recorded_device memory)
zero_tests(optim ROOMS base device recorded_device optim SLOW)
# Over 20 s: engines of up to four ranks for each placement of states, some on a real disk.
zero_tests(engine SHARDS 2 ROOMS base device recorded_device plan comm memory optim engine SLOW RECORDED)
zero_tests(cuda APART fake_cudart ROOMS base device comm memory optim)
zero_tests(serve ROOMS base device recorded_device plan comm memory optim engine serve)
# Over 20 s: saves that are killed or that fail at each of their system calls, and loads into other worlds.
zero_tests(checkpoint SHARDS 3 ROOMS base device recorded_device plan comm memory optim engine checkpoint launch
           SLOW FULL RECORDED)
zero_tests(data ROOMS base data)
zero_tests(report APART page ROOMS base device plan comm memory optim engine report LIBS nlohmann_json::nlohmann_json)
# Over 20 s: worlds that fail. Many of these tests wait for a timeout of the library.
zero_tests(world ROOMS base device recorded_device plan comm memory optim engine serve LABEL slow TIMEOUT 600)
