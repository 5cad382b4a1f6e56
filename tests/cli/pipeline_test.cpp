// `[parallel]`: processes share one model as a pipeline, over each transport. Also plans and refused keys.
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
  const Json plain = report_of("-n 1", "plain");
  const Json cut = report_of("-n 2 --parallel.pipeline 2", "cut");
  ASSERT_TRUE(plain.is_object() && cut.is_object());
  EXPECT_EQ(cut.at("transport"), "shared_memory");
  for (const char* const key : {"loss_bits", "parameters_sha256", "grad_norms", "val_loss", "num_parameters"})
    EXPECT_EQ(cut.at(key), plain.at(key)) << key;
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

// The run measures anew, so its choice may be another one than the plan's.
TEST_F(Pipelines, AutoPrintsEachOrder) {
  const std::string flags = "c.toml -n 2 --parallel.pipeline 2 --parallel.schedule auto --parallel.sections 2";
  const Ran plan = folder_.zero("plan " + flags, "timeout 60");
  EXPECT_EQ(plan.status, 0) << plan.errors;
  const Ran run = folder_.zero("train " + flags + " --run.dir run", "timeout 60");
  EXPECT_EQ(run.status, 0) << run.errors;
  for (const std::string& text : {plan.output, run.output}) {
    EXPECT_TRUE(says(text, "interleaved         2 skipped: parallel.sections = 2: ")) << text;
    EXPECT_TRUE(says(text, "  chosen\n")) << text;
  }
  const Json json = Json::parse(folder_.zero("plan " + flags + " --json", "timeout 60").output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json.at("orders").size(), 6U);
  EXPECT_GT(json.at("orders").at(0).at("seconds"), 0);
}

TEST_F(Pipelines, WrongNumbersEndWithStatusTwo) {
  for (const auto& [flags, start] :
       {std::pair("-n 3 --parallel.pipeline 2", "parallel.pipeline = 2: it must divide the number of ranks"),
        std::pair("-n 2 --parallel.pipeline 2 --model.dropout 0.1", "model.dropout = 0.1: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.sections 3", "parallel.sections = 3: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.schedule auto --parallel.activation_memory 100",
                  "parallel.activation_memory = 100 B: ")}) {
    const Ran ran = folder_.zero(std::string("train c.toml ") + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags << ran.errors;
    EXPECT_TRUE(says(ran.errors, start)) << ran.errors;
  }
}

}  // namespace
}  // namespace zero
