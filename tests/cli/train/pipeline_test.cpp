// `[parallel]`: processes share one model as a pipeline, over each transport. Also plans and refused keys.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/mpirun.h"

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

TEST_F(PipelinesSlow, AveragesKeepBits) {
  const std::string flags = " --run.threads 1 --train.ema 0.9 --train.eval_every 2 --zero.stage 3";
  int number = 0;
  for (const auto& [whole, cut] :
       {std::pair("-n 1", "-n 2 --parallel.pipeline 2"), std::pair("-n 2", "-n 4 --parallel.pipeline 2")}) {
    SCOPED_TRACE(cut);
    const std::string plain = fmt::format("plain{}", number), line = fmt::format("line{}", number++);
    const Json expected = report_of(whole + flags, plain), run = report_of(cut + flags, line);
    ASSERT_TRUE(expected.is_object() && run.is_object());
    for (const char* const key : {"loss_bits", "parameters_sha256", "val_loss"})
      EXPECT_EQ(run.at(key), expected.at(key));
    const std::string averages = folder_.read(line + "/model_ema.safetensors");
    EXPECT_EQ(averages, folder_.read(plain + "/model_ema.safetensors"));
    EXPECT_NE(averages, folder_.read(line + "/model.safetensors"));
  }
}

// A sample begins with one token, and is longer than the context and than the number of plans that are kept.
TEST_F(PipelinesSlow, SamplesAreThoseOfWholeModel) {
  const auto sample = [&](const std::string& flags) {
    const Ran ran = folder_.zero("train c.toml --run.threads 1 --train.sample 50 --run.dir " + flags, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors;
    const std::size_t begin = ran.output.find("sample:"), end = ran.output.find("done: ");
    return begin < end ? ran.output.substr(begin, end - begin) : "no sample\n" + ran.output;
  };
  const std::string plain = sample("plain -n 1");
  EXPECT_GT(plain.size(), 50U);
  EXPECT_EQ(sample("cut -n 2 --parallel.pipeline 2"), plain);
  EXPECT_EQ(sample("three -n 3 --parallel.pipeline 3 --zero.stage 3"), plain);
}

// Rank 0 measures operators, neighbours measure their link over MPI, and all take one order.
TEST_F(PipelinesSlow, AutoKeepsBitsOverMpi) {
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "this build has no mpirun";
  const Json plain = report_of("-n 1 --run.threads 1", "plain");
  const Ran ran = folder_.zero(
      "train c.toml --run.dir cut --run.threads 1 --comm.transport mpi --parallel.pipeline 2 --parallel.schedule auto",
      "timeout 250 " + mpirun_ranks(2));
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  const Json cut = Json::parse(folder_.read("cut/report.json"));
  EXPECT_EQ(cut.at("transport"), "mpi");
  for (const char* const key : {"loss_bits", "parameters_sha256"}) EXPECT_EQ(cut.at(key), plain.at(key)) << key;
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

TEST_F(PipelinesSlow, CutsKeepBits) {
  const Json plain = report_of("-n 1", "plain");
  for (const auto& [name, cut] : {std::pair("measured", "measured"), std::pair("named", "'[\"ln_f\"]'")}) {
    const Json run = report_of(std::string("-n 2 --parallel.pipeline 2 --parallel.cut ") + cut, name);
    ASSERT_TRUE(plain.is_object() && run.is_object()) << cut;
    EXPECT_EQ(run.at("parameters_sha256"), plain.at("parameters_sha256")) << cut;
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
  ASSERT_GE(json.at("orders").size(), 6U) << "and deeper 1f1b";
  EXPECT_GT(json.at("orders").at(0).at("seconds"), 0);
}

// A kilobyte a second: a step takes the time of its messages.
TEST_F(Pipelines, PlanCountsTheClustersLinks) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 2\nranks = 1\nnetwork = \"1KB\"\n");
  const std::string flags = "--parallel.pipeline 2 --parallel.schedule auto";
  const Ran ran = folder_.zero("plan c.toml --cluster cluster.toml " + flags, "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "by the operators' seconds on this machine and the cluster's links")) << ran.output;
  const Ran json = folder_.zero("plan c.toml --cluster cluster.toml --json " + flags, "timeout 60");
  const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  const double bytes = plan.at("positions").at(0).at("sent_crossing_bytes").get<double>();
  for (const Json& order : plan.at("orders"))
    if (!order.contains("skipped") && order.at("sections") == 2) EXPECT_GT(order.at("seconds"), bytes / 1000 / 2);
}

TEST_F(Pipelines, WrongNumbersEndWithStatusTwo) {
  for (const auto& [flags, start] :
       {std::pair("-n 3 --parallel.pipeline 2", "parallel.pipeline = 2: it must divide the number of ranks"),
        std::pair("-n 2 --parallel.pipeline 2 --train.gradient_noise 0.1", "train.gradient_noise = 0.1: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.sections 3", "parallel.sections = 3: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.schedule auto --parallel.activation_memory 100B",
                  "parallel.activation_memory = 100 B: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.cut '[\"h.9\"]'",
                  "parallel.cut = h.9: the model has no such unit")}) {
    const Ran ran = folder_.zero(std::string("train c.toml ") + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags << ran.errors;
    EXPECT_TRUE(says(ran.errors, start)) << ran.errors;
  }
}

}  // namespace
}  // namespace zero
