// Ranks that are this test program. A launcher starts it again with only one test of LauncherMemoryRank.
//
//   TEST(LauncherMemoryRank, DoesSomething) { SKIP_UNLESS_RANK(); ... }
//   run_launch(ranks_of_this_test(2, "DoesSomething"))
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/launch/launched.h"

namespace zero {

inline LaunchOptions ranks_of_this_test(int ranks, const std::string& filter) {
  LaunchOptions options;
  options.program = {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_filter=LauncherMemoryRank." + filter,
                     "--gtest_brief=1"};
  options.ranks = ranks;
  options.variables = {{"ZERO_TEST_LAUNCHER_MEMORY", "1"}};
  return options;
}

#define SKIP_UNLESS_RANK() \
  if (std::getenv("ZERO_TEST_LAUNCHER_MEMORY") == nullptr) GTEST_SKIP() << "is a rank of a test of Launch"

inline int number(const char* variable) {
  return std::stoi(std::getenv(variable));
}

}  // namespace zero
