// Runs a test of this program as the ranks of a world, each in its own process. Autograd does not work in a child that
// only forked, so each process starts the program anew.
//
//   TEST(PipelineRank, KeepsBits) {
//     const std::optional<int> rank = rank_of_process();
//     if (!rank) GTEST_SKIP() << "is a rank of another test";
//     World world = world_of_process(4); ...
//   }
//   TEST(AttachPipeline, SharedMemoryKeepsBits) { expect_processes_pass(4, "PipelineRank.KeepsBits"); }
#pragma once

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/comm/transport/world.h"

namespace zero::tests {

inline std::optional<int> rank_of_process() {
  const char* const text = std::getenv("ZERO_TEST_PIPELINE_RANK");
  return text == nullptr ? std::nullopt : std::optional(std::atoi(text));
}

inline World world_of_process(int world) {
  const int rank = rank_of_process().value();
  return World::from_environment({.transport = "shared_memory",
                                  .ranks = {.rank = rank,
                                            .world = world,
                                            .local_rank = rank,
                                            .local_world = world,
                                            .run_id = std::getenv("ZERO_TEST_PIPELINE_RUN")}});
}

// A filter that selects no test would pass.
inline bool has_test(const std::string& name) {
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int suite = 0; suite < program.total_test_suite_count(); ++suite) {
    const testing::TestSuite& tests = *program.GetTestSuite(suite);
    for (int test = 0; test < tests.total_test_count(); ++test)
      if (std::string(tests.name()) + "." + tests.GetTestInfo(test)->name() == name) return true;
  }
  return false;
}

inline void expect_processes_pass(int world, const std::string& test) {
  ASSERT_TRUE(has_test(test)) << test;
  static int runs = 0;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string run = "ZERO_TEST_PIPELINE_RUN=pipeline-" + std::to_string(::getpid()) + std::to_string(runs++);
  const std::string filter = "--gtest_filter=" + test;
  std::vector<pid_t> children;
  for (int rank = 0; rank < world; ++rank) {
    const std::string number = "ZERO_TEST_PIPELINE_RANK=" + std::to_string(rank);
    std::vector<char*> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
    for (const std::string* own : {&run, &number}) variables.push_back(const_cast<char*>(own->c_str()));
    variables.push_back(nullptr);
    const std::array<const char*, 4> words{program.c_str(), filter.c_str(), "--gtest_brief=1", nullptr};
    pid_t child = -1;
    ASSERT_EQ(
        ::posix_spawn(&child, program.c_str(), nullptr, nullptr, const_cast<char**>(words.data()), variables.data()),
        0);
    children.push_back(child);
  }
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = -1;
    ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

}  // namespace zero::tests
