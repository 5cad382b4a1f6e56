// `[parallel]`: processes share one model as a pipeline, over each transport. Also plans and refused keys.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Pipelines : public TrainingTest {
 protected:
  Pipelines() : TrainingTest(small_gpt(at_one_rate("steps = 4\nbatch = 2\naccumulate = 4\n"))) {}
};
using PipelinesSlow = Pipelines;

TEST_F(PipelinesSlow, ProcessesKeepBits) {
  for (const std::string flags : {"", " --model.dropout 0.2 --train.checkpoint_activations true"}) {
    SCOPED_TRACE(flags);
    const Json plain = report_of("-n 1 --run.threads 1" + flags, "plain" + std::to_string(flags.size()));
    const Json cut =
        report_of("-n 2 --run.threads 1 --parallel.pipeline 2" + flags, "cut" + std::to_string(flags.size()));
    ASSERT_TRUE(plain.is_object() && cut.is_object());
    EXPECT_EQ(cut.at("transport"), "shared_memory");
    for (const char* const key : {"loss_bits", "parameters_sha256", "grad_norms", "val_loss", "num_parameters"})
      EXPECT_EQ(cut.at(key), plain.at(key)) << key;
  }
}

// States of each rank: two lines of two positions, over which each stage divides the states of a section.
TEST_F(PipelinesSlow, RanksHoldPlannedStates) {
  for (const int stage : {0, 1, 2, 3}) {
    const std::string flags = fmt::format("-n 4 --parallel.pipeline 2 --zero.stage {}", stage);
    const Ran json = folder_.zero("plan c.toml " + flags + " --json", "timeout 60");
    const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
    const Json report = report_of(flags, fmt::format("stage{}", stage));
    ASSERT_TRUE(plan.is_object() && report.is_object()) << json.errors;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const Json& memory = report.at("memory_bytes").at(rank);
      double states = 0;
      for (const char* const state : {"parameter", "gradient", "master", "moment"})
        states += memory.at(state).get<double>();
      const auto planned = plan.at("positions").at(rank / 2).at("state_bytes").get<double>();
      EXPECT_NEAR(states / planned, 1, 0.02) << "stage " << stage << ", rank " << rank;
    }
  }
}

// The sums of a run's checkpoints do not depend on its sections.
TEST_F(PipelinesSlow, OtherCutsVerifyTheRun) {
  const std::string flags = "-n 2 --parallel.pipeline 2 --parallel.schedule zb-h1 --checkpoint.every 2 --run.threads 1";
  ASSERT_TRUE(report_of(flags, "run").is_object());
  for (const char* const cut : {"", "--parallel.pipeline 1"}) {
    const Ran ran = folder_.zero(std::string("verify run ") + cut, "timeout 100");
    EXPECT_EQ(ran.status, 0) << cut << ran.output << ran.errors;
    EXPECT_TRUE(says(ran.output, "equal: no difference")) << ran.output;
  }
}

TEST_F(Pipelines, PlanHasSectionsAndOrder) {
  const Ran ran = folder_.zero("plan c.toml -n 2 --parallel.pipeline 2", "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "section 1 at position 0")) << ran.output;
  EXPECT_TRUE(says(ran.output, "position 0: F0.1 F1.1 B0.1 F2.1 B1.1 F3.1 B2.1 B3.1")) << ran.output;
  const Ran json = folder_.zero("plan c.toml -n 2 --parallel.pipeline 2 --json", "timeout 60");
  const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  EXPECT_EQ(plan.at("positions").size(), 2U);
  EXPECT_GT(plan.at("crossings").at(0).at("bytes"), 0);
}

TEST_F(Pipelines, WrongNumbersEndWithStatusTwo) {
  for (const auto& [flags, start] :
       {std::pair("-n 3 --parallel.pipeline 2", "parallel.pipeline = 2: it must divide the number of ranks"),
        std::pair("-n 2 --parallel.pipeline 2 --train.gradient_noise 0.1", "train.gradient_noise = 0.1: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.sections 3", "parallel.sections = 3: ")}) {
    const Ran ran = folder_.zero(std::string("train c.toml ") + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags << ran.errors;
    EXPECT_TRUE(says(ran.errors, start)) << ran.errors;
  }
}

}  // namespace
}  // namespace zero
