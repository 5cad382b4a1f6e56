add_library(zero_torch_test_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
target_link_libraries(zero_torch_test_pch PUBLIC zero_flags zero_libtorch GTest::gtest)
target_precompile_headers(zero_torch_test_pch PRIVATE <cmake/torch_test_pch.h>)
zero_compile_as_test(zero_torch_test_pch -O0)

# Includes the tests of fixed bugs (tests/issues) that need libtorch.
# Over 20 s: each of about 500 cases attaches modules on several ranks, at most stages. Full: ranks sleep for whole
# steps.
zero_tests(torch TORCH SLOW FULL FOLDERS issues/torch TIMEOUT 900
           ROOMS base device plan comm memory optim engine serve checkpoint torch)
zero_tests(models TORCH LIBS zero_app zero zero_core)
# Over 20 s: whole runs, killed and resumed, and pairs of optimizers, models and types.
zero_tests(train TORCH SHARDS 2 ROOMS launch LIBS zero_app zero zero_core SLOW)
# Over 20 s: a model at every stage, placement, world and transport, bit for bit; each cell is a training run.
zero_tests(parity TORCH LABEL slow SHARDS 4 TIMEOUT 1800
           ROOMS base device plan comm memory optim engine serve checkpoint torch models
           LIBS nlohmann_json::nlohmann_json)
