#include "app/config/rules/thread_rules.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/load.h"
#include "tests/support/expect_says.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

LoadedConfig with_threads(std::int64_t threads) {
  LoadedConfig loaded;
  loaded.config.run.threads = threads;
  loaded.origins["run.threads"] = "c.toml:7";
  return loaded;
}

std::string refusal_of(std::int64_t threads, std::int64_t cores) {
  return message_of<ConfigError>([&] { require_threads(with_threads(threads), cores); });
}

TEST(ThreadRules, AllowsSomeMoreThreadsThanCores) {
  for (const auto& [threads, cores] : {std::pair{0, 1}, std::pair{64, 1}, std::pair{64, 2}, std::pair{512, 128}})
    EXPECT_NO_THROW(require_threads(with_threads(threads), cores)) << threads;
}

// There are too few cores for the threads.
TEST(ThreadRules, SuggestsAThreadCountThatWorks) {
  const std::string refusal = refusal_of(4000, 2);
  EXPECT_TRUE(says(refusal, "c.toml:7: run.threads = 4000: this machine has 2 cores"));
  EXPECT_TRUE(says(refusal, "use 64 or less, or 0"));
  EXPECT_TRUE(says(refusal_of(513, 128), "use 512 or less"));
  EXPECT_TRUE(says(refusal_of(65, 1), "1 core, and"));
}

// A larger machine's file is accepted until it is known where the run computes.
TEST(ThreadRules, ConcernTheMachineThatComputesAlone) {
  EXPECT_EQ(
      load_config({.text = "[run]\nthreads = 4096\n", .text_name = "c.toml", .check_files = false}).config.run.threads,
      4096);
}

}  // namespace
}  // namespace zero
