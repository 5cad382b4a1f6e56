// `--sync.mode local`: copies of the model train apart, and a run saves the model that they share.
#include <cmath>

#include <fmt/format.h>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/json_lines.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class TrainedApart : public TrainingTest {
 protected:
  TrainedApart() : TrainingTest(small_gpt(at_one_rate("steps = 10\nbatch = 2\neval_every = 5\n"))) {}
  std::int64_t bytes_between_copies(const std::string& run, std::size_t line) const {
    return json_lines(folder_.read(run + "/metrics.jsonl")).at(line).at("sent_between_copies").get<std::int64_t>();
  }
};
using TrainedApartSlow = TrainedApart;

// A round is the steps between two outer steps.
TEST_F(TrainedApartSlow, ContinueWithinRoundsWithSameBits) {
  const std::string local = "--sync.mode local --sync.local_steps 4 ";
  const Json whole = report_of("-n 2 " + local, "whole");
  ASSERT_TRUE(whole.is_object());
  EXPECT_EQ(whole.at("transport"), "shared_memory");
  const Json& outer = whole.at("copies").at("outer_step");
  EXPECT_EQ(whole.at("copies").at("number"), 2);
  EXPECT_EQ(outer.at("every_steps"), 4);
  for (const Json& sent : outer.at("sent_bytes")) {
    EXPECT_EQ(sent, outer.at("planned_sent_bytes"));
    EXPECT_GE(sent, outer.at("formula").at("sent_bytes"));
  }
  for (const Json& sent : whole.at("copies").at("sent_bytes_per_step")) EXPECT_EQ(sent, 0);

  ASSERT_TRUE(report_of("-n 2 --train.steps 6 --checkpoint.every 3 " + local, "halves").is_object());
  const Json rest = report_of("-n 2 --zero.stage 1 --checkpoint.every 3 " + local, "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_EQ(rest.at("val_loss"), whole.at("val_loss"));

  const Json threads = report_of("-n 2 --comm.transport in_process " + local, "threads");
  EXPECT_EQ(threads.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(threads.at("parameters_sha256"), whole.at("parameters_sha256"));
}

TEST_F(TrainedApartSlow, CopiesExchangeOnlyInOuterSteps) {
  const Json report = report_of("-n 2 --train.eval_every 0 --sync.mode local --sync.local_steps 4", "run");
  const auto planned = report.at("copies").at("outer_step").at("planned_sent_bytes").get<std::int64_t>();
  std::size_t line = 0;
  for (int step = 1; step <= 10; ++step, ++line) {
    while (!json_lines(folder_.read("run/metrics.jsonl")).at(line).contains("loss")) ++line;
    EXPECT_EQ(bytes_between_copies("run", line), step % 4 == 0 || step == 10 ? planned : 0) << step;
  }
}

// The continued run has the bits of an uninterrupted run.
TEST_F(TrainedApartSlow, ContinueWithFragmentsInFlight) {
  const std::string local =
      "--train.eval_every 5 --sync.mode local --sync.local_steps 4 --sync.fragments 2 --sync.overlap 2 ";
  const Json whole = report_of("-n 2 " + local, "whole");
  ASSERT_TRUE(whole.is_object());
  EXPECT_EQ(whole.at("copies").at("outer_step").at("fragments"), 2);
  EXPECT_EQ(whole.at("copies").at("outer_step").at("overlap"), 2);
  ASSERT_TRUE(report_of("-n 2 --train.steps 7 " + local, "halves").is_object());
  const Json rest = report_of("-n 2 --comm.transport in_process " + local, "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
}

TEST_F(TrainedApartSlow, EndWithAnOuterStep) {
  const Json outer = report_of("-n 2 --train.steps 2 --sync.mode local", "run").at("copies").at("outer_step");
  for (const Json& sent : outer.at("sent_bytes")) EXPECT_EQ(sent, outer.at("planned_sent_bytes"));
}

TEST_F(TrainedApartSlow, GroupsOfRanksLearnAlike) {
  const Json sync = report_of("-n 4 --zero.group 2 --optimizer.name sgd --train.clip 0", "sync");
  const Json local = report_of(
      "-n 4 --zero.group 2 --optimizer.name sgd --sync.mode local --sync.local_steps 1 --sync.outer_lr 1 "
      "--sync.outer_momentum 0 --train.clip 0",
      "local");
  EXPECT_EQ(local.at("copies").at("ranks_of_each"), 2);
  EXPECT_NEAR(local.at("val_loss").get<double>(), sync.at("val_loss").get<double>(), 1e-3);
}

TEST_F(TrainedApartSlow, ArePlanned) {
  const Ran text = folder_.zero("plan c.toml --world 4 --zero.group 2 --sync.mode local");
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_CONTAINS(text.output, "2 of the model, each on 2 ranks, train apart (sync.mode local)");
  EXPECT_CONTAINS(text.output, "After every 50");
  const Ran parts = folder_.zero("plan c.toml --world 2 --sync.mode local --sync.fragments 2 --sync.overlap 3");
  EXPECT_CONTAINS(one_line(parts.output), "each of 2 fragments");
  EXPECT_CONTAINS(one_line(parts.output), "while 3 steps are computed");
  const Ran json = folder_.zero("plan c.toml --world 4 --zero.group 2 --sync.mode local --json");
  const Json plan = Json::parse(json.output, nullptr, false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  EXPECT_EQ(plan.at("local_steps"), 50);
  const Json& stage = plan.at("stages").at(3);
  EXPECT_EQ(stage.at("between_copies").at("sent_bytes"), 0);
  EXPECT_GE(stage.at("outer_step").at("sent_between_copies"),
            stage.at("outer_step").at("formula").at("sent_between_copies"));
}

TEST_F(TrainedApartSlow, RefusesImpossibleOnesBeforeStarting) {
  const auto refused = [&](const std::string& flags, const std::string& reason) {
    const Ran ran = folder_.zero("train c.toml --run.dir run " + flags);
    EXPECT_EQ(ran.status, 2) << flags;
    EXPECT_CONTAINS(ran.errors, reason);
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run")) << flags;
  };
  refused("-n 2 --zero.group 2 --sync.mode local",
          "sync.mode = local: there is only one copy of the model, on 2 ranks");
  refused("--sync.mode local", "there is only one copy of the model, on 1 rank");
  refused("-n 2 --sync.mode local --sync.local_steps 0", "sync.local_steps = 0");
  refused("-n 2 --sync.mode local --sync.outer_lr 0", "sync.outer_lr = 0");
  refused("-n 2 --sync.mode local --sync.outer_momentum 1", "sync.outer_momentum = 1");
  refused("-n 2 --sync.mode local --train.ema 0.9", "train.ema = 0.9");
  refused("-n 2 --sync.mode local --zero.delayed_update true", "zero.delayed_update = true");
  refused("-n 2 --sync.mode local --train.share auto", "train.share");
  refused("-n 2 --sync.mode local --sync.overlap 51", "sync.overlap = 51: fragments are sent one at a time");
  refused("-n 2 --sync.mode local --sync.fragments 40", "sync.fragments = 40: the model has");
  refused("-n 2 --sync.mode local --sync.mix 0.3", "sync.mix = 0.3: without sync.overlap");
  refused("-n 2 --sync.overlap 2", "sync.overlap = 2: only sync.mode local has an outer step");
  refused("-n 2 --sync.local_steps 20", "sync.local_steps = 20: only sync.mode local has an outer step");
  refused("-n 2 --sync.mode maybe", "sync.mode");
}

}  // namespace
}  // namespace zero
