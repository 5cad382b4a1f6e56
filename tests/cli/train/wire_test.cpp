// `--comm.*_wire`: fewer bytes cross, as many as planned. A run can still be repeated and continued.
#include <cmath>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class TrainedOverAWire : public TrainingTest {
 protected:
  TrainedOverAWire() : TrainingTest(small_gpt(at_one_rate("steps = 6\nbatch = 2\neval_every = 3\n"))) {}
};
using TrainedOverAWireSlow = TrainedOverAWire;

// The continued run also has the same bits.
TEST_F(TrainedOverAWireSlow, ThreadsAndProcessesHaveSameBits) {
  const std::string wire = "-n 2 --comm.reduce_wire int8 --comm.gather_wire int8 ";
  const Json whole = report_of(wire, "whole"), threads = report_of(wire + "--comm.transport in_process", "threads");
  ASSERT_TRUE(whole.is_object() && threads.is_object());
  EXPECT_EQ(whole.at("transport"), "shared_memory");
  EXPECT_EQ(threads.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(threads.at("parameters_sha256"), whole.at("parameters_sha256"));
  const Json exact = report_of("-n 2", "exact");
  EXPECT_NE(exact.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_NEAR(exact.at("val_loss").get<double>(), whole.at("val_loss").get<double>(), 0.02);

  ASSERT_TRUE(report_of(wire + "--train.steps 3 --checkpoint.every 3", "halves").is_object());
  const Json rest = report_of(wire + "--checkpoint.every 3", "halves");
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
}

// The run continues between two outer steps, with the same bits.
TEST_F(TrainedOverAWireSlow, CodedOuterStepsContinueIdentically) {
  const std::string local = "-n 2 --sync.mode local --sync.local_steps 2 --comm.outer_wire int8 ";
  const Json whole = report_of(local, "whole");
  ASSERT_TRUE(whole.is_object());
  const Json& outer = whole.at("copies").at("outer_step");
  for (const Json& sent : outer.at("sent_bytes")) {
    EXPECT_EQ(sent, outer.at("planned_sent_bytes"));
    EXPECT_GE(sent, outer.at("formula").at("sent_bytes"));
  }
  const Json exact = report_of("-n 2 --sync.mode local --sync.local_steps 2", "exact");
  EXPECT_NEAR(exact.at("copies").at("outer_step").at("formula").at("sent_bytes").get<double>(),
              4 / (1 + 4 / 256.0) * outer.at("formula").at("sent_bytes").get<double>(), 1e-6);
  EXPECT_NE(exact.at("parameters_sha256"), whole.at("parameters_sha256"));

  ASSERT_TRUE(report_of(local + "--train.steps 3 --checkpoint.every 3", "halves").is_object());
  const Json rest = report_of(local + "--zero.stage 1 --checkpoint.every 3", "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
}

// The continued run has the same bits.
TEST_F(TrainedOverAWireSlow, CodedGroupGradientsContinueIdentically) {
  const std::string groups = "-n 2 --zero.group 1 --comm.outer_wire int8 ";
  const Json whole = report_of(groups, "whole"), exact = report_of("-n 2 --zero.group 1", "exact");
  ASSERT_TRUE(whole.is_object() && exact.is_object());
  EXPECT_NE(exact.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_NEAR(exact.at("val_loss").get<double>(), whole.at("val_loss").get<double>(), 0.02);
  const Json& copies = whole.at("copies");
  EXPECT_EQ(last_ranks("whole").at("sent_bytes").at("copies").at("int8"), copies.at("sent_bytes_per_step"));
  for (const Json& sent : copies.at("sent_bytes_per_step")) EXPECT_EQ(sent, copies.at("planned_sent_bytes"));
  EXPECT_NEAR(exact.at("copies").at("formula").at("sent_bytes").get<double>() /
                  copies.at("formula").at("sent_bytes").get<double>(),
              4 / (1 + 4 / 256.0), 1e-9);

  ASSERT_TRUE(report_of(groups + "--train.steps 3 --checkpoint.every 3", "halves").is_object());
  const Json rest = report_of(groups + "--comm.transport in_process --checkpoint.every 3", "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
}

// Only the largest elements are sent. The residuals are continued.
TEST_F(TrainedOverAWireSlow, TopKOuterStepsKeepResiduals) {
  const std::string local =
      "-n 2 --sync.mode local --sync.local_steps 2 --comm.outer_wire topk --comm.outer_topk 0.05 ";
  const Json whole = report_of(local, "whole");
  ASSERT_TRUE(whole.is_object());
  const Json& outer = whole.at("copies").at("outer_step");
  for (const Json& sent : outer.at("sent_bytes")) {
    EXPECT_EQ(sent, outer.at("planned_sent_bytes"));
    EXPECT_NEAR(sent.get<double>() / outer.at("formula").at("sent_bytes").get<double>(), 1, 0.05);
  }
  ASSERT_TRUE(report_of(local + "--train.steps 3 --checkpoint.every 3", "halves").is_object());
  const Json rest = report_of(local + "--zero.stage 1 --comm.transport in_process --checkpoint.every 3", "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));

  const Json plan = Json::parse(folder_.zero("plan c.toml --json --world 2" + local.substr(4)).output, nullptr, false);
  ASSERT_TRUE(plan.is_object());
  EXPECT_EQ(plan.at("wire").at("outer"), "topk");
  EXPECT_EQ(plan.at("stages").at(3).at("outer_step").at("sent_between_copies"), outer.at("planned_sent_bytes"));
}

TEST_F(TrainedOverAWireSlow, SendsWhatIsPlanned) {
  const Json report = report_of("-n 2 --comm.reduce_wire int8 --comm.gather_wire int4", "run");
  for (const Json& sent : report.at("sent_bytes_per_step")) EXPECT_EQ(sent, report.at("planned_sent_bytes"));
  const Json in_group = last_ranks("run").at("sent_bytes").at("group");
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(in_group.at("int8").at(rank).get<int>() + in_group.at("int4").at(rank).get<int>(),
              report.at("planned_sent_bytes"))
        << in_group;
  const Ran json = folder_.zero("plan c.toml --world 2 --comm.reduce_wire int8 --comm.gather_wire int4 --json");
  const Json plan = Json::parse(json.output, nullptr, false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  const Ran plain = folder_.zero("plan c.toml --world 2 --json");
  const Json& stage = plan.at("stages").at(3);
  EXPECT_EQ(stage.at("formula").at("sent_bytes"), report.at("formula").at("sent_bytes"));
  const Json uncoded = Json::parse(plain.output).at("stages");
  const double ratio =
      stage.at("formula").at("sent_bytes").get<double>() / uncoded.at(3).at("formula").at("sent_bytes").get<double>();
  EXPECT_NEAR(ratio, (2 * (0.5 + 4 / 256.0) + 1 + 4 / 256.0) / 12, 1e-9);
  EXPECT_GT(plan.at("stages").at(2).at("sent_bytes").get<double>(), stage.at("sent_bytes").get<double>())
      << "below stage 3 parameters are not coded";
}

TEST_F(TrainedOverAWireSlow, RefusesImpossibleOnesBeforeStarting) {
  const auto refused = [&](const std::string& flags, const std::string& reason) {
    const Ran ran = folder_.zero("train c.toml --run.dir run " + flags);
    EXPECT_EQ(ran.status, 2) << flags;
    EXPECT_CONTAINS(ran.errors, reason);
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run")) << flags;
  };
  refused("-n 2 --comm.reduce_wire int2", "comm.reduce_wire = int2");
  refused("-n 2 --comm.reduce_wire int2", "int8");
  refused("-n 2 --zero.stage 2 --comm.gather_wire int8", "comm.gather_wire = \"int8\": at stage 2");
  refused("-n 2 --comm.outer_wire int8",
          "comm.outer_wire = \"int8\": the ranks hold one copy of the model, so no copies exchange gradients");
  refused("-n 2 --comm.outer_wire topk", "comm.outer_wire = \"topk\": the ranks hold one copy of the model");
  refused("-n 2 --zero.group 1 --comm.outer_wire topk", "comm.outer_wire = \"topk\": only an outer step sends a share");
  refused("-n 2 --comm.gather_wire topk", "comm.gather_wire = topk");
  refused("-n 2 --comm.reduce_wire topk", "none, int8, int4");
  const std::string apart = "-n 2 --sync.mode local ";
  refused(apart + "--comm.outer_topk 0.1", "comm.outer_topk = 0.1: comm.outer_wire = \"none\" sends all elements");
  refused(apart + "--comm.outer_wire topk --comm.outer_topk 0", "comm.outer_topk = 0");
  refused(apart + "--comm.outer_wire topk --comm.outer_topk 1.5", "a number from above 0 to 1");
  refused("-n 2 --sync.mode local --comm.reduce_wire int8",
          "comm.reduce_wire = \"int8\": each rank holds a whole copy");
  refused("-n 3 --sync.mode async --comm.reduce_wire int8", "comm.reduce_wire = \"int8\": servers and workers");
}

}  // namespace
}  // namespace zero
