// `zero plan` of what leaves the device: where it lies and how long a step takes.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "training_test.h"

namespace zero {
namespace {

constexpr const char* kConfig = R"([model]
layers = 2
width = 64
heads = 2
context = 32
vocab = 256
[data]
path = "input.txt"
validation = 0
[train]
steps = 5
batch = 1
[schedule]
warmup = 0
)";

class Plan : public TrainingTest {
 protected:
  Plan() : TrainingTest(kConfig) {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::filesystem::create_directory(folder_.path() / "disk");
  }
  nlohmann::json plan(const std::string& flags) const {
    const Ran ran = folder_.zero("plan c.toml -n 2 --json " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false);
  }
};

TEST_F(Plan, WithABudgetTheRestLiesOnDiskAndTheDiskTakesTime) {
  const auto roomy = plan("--zero.disk disk --zero.device_memory 64MiB");
  EXPECT_EQ(roomy["tiers"]["disk"]["total"], 0);
  const auto tight = plan("--zero.disk disk --zero.device_memory 1200KiB");
  EXPECT_GT(tight["tiers"]["disk"]["total"].get<int>(), 0);
  EXPECT_LE(tight["tiers"]["device"]["total"].get<int>(), 1200 << 10);
  EXPECT_EQ(tight["predicted"]["update"]["bound"], "disk");
  EXPECT_GT(tight["predicted"]["seconds"].get<double>(), roomy["predicted"]["seconds"].get<double>());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "disk"));
}

TEST_F(Plan, WhatDoesNotFitIsRefusedWithTheCheapestChange) {
  const Ran ran =
      folder_.zero("plan c.toml -n 2 --zero.disk disk --zero.disk_memory 16KiB --zero.device_memory 800KiB");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_NE(ran.errors.find("raise zero.disk_memory by"), std::string::npos) << ran.errors;
}

TEST_F(Plan, AProfileTellsTheComputation) {
  const auto report = report_of("-n 2", "run");
  const auto planned = plan("--zero.optimizer '{host = 1}' --profile run");
  EXPECT_DOUBLE_EQ(planned["predicted"]["forward"]["seconds"].get<double>(),
                   report["profile"]["forward_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(planned["predicted"]["backward"]["seconds"].get<double>(),
                   report["profile"]["backward_seconds"].get<double>());
  const Ran missing = folder_.zero("plan c.toml --zero.optimizer '{host = 1}' --profile nowhere");
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.errors.find("--profile"), std::string::npos) << missing.errors;
}

}  // namespace
}  // namespace zero
