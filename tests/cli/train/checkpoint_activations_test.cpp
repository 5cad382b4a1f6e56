// `zero train --train.checkpoint_activations true`, for activations that do not fit.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfig = R"([model]
layers = 3
width = 32
heads = 4
context = 32
dropout = 0.1
[data]
path = "input.txt"
[train]
steps = 6
batch = 2
accumulate = 2
eval_every = 3
eval_batches = 2
[run]
threads = 1
)";

class CheckpointActivations : public TrainingTest {
 protected:
  CheckpointActivations() : TrainingTest(kConfig) {}
};
using CheckpointActivationsSlow = CheckpointActivations;

TEST_F(CheckpointActivationsSlow, TrainToTheSameBits) {
  const Json without = report_of("-n 2", "without");
  const Json with = report_of("-n 2 --train.checkpoint_activations true", "with");
  ASSERT_TRUE(without.is_object() && with.is_object());
  EXPECT_EQ(with.at("loss_bits"), without.at("loss_bits"));
  EXPECT_EQ(with.at("parameters_sha256"), without.at("parameters_sha256"));
  EXPECT_EQ(with.at("val_loss"), without.at("val_loss"));
  EXPECT_NE(folder_.read("with/config.toml").find("checkpoint_activations = true"), std::string::npos);
}

TEST_F(CheckpointActivationsSlow, OffloadedOnesTrainToSameBits) {
  std::filesystem::create_directory(folder_.path() / "disk");
  const std::string kept = "-n 2 --train.checkpoint_activations true ";
  const Json none = report_of(kept, "none");
  const Json host = report_of(kept + "--train.offload_activations host", "host");
  const Json disk = report_of(kept + "--train.offload_activations disk --zero.disk disk", "disk_run");
  const Json link = report_of(kept + "--train.offload_activations host --zero.link_bandwidth 10GiB", "link");
  ASSERT_TRUE(none.is_object() && host.is_object() && disk.is_object() && link.is_object());
  for (const Json* offloaded : {&host, &disk, &link}) {
    EXPECT_EQ(offloaded->at("loss_bits"), none.at("loss_bits"));
    EXPECT_EQ(offloaded->at("parameters_sha256"), none.at("parameters_sha256"));
    EXPECT_EQ(offloaded->at("val_loss"), none.at("val_loss"));
    // For each micro-batch, the inputs of three blocks: 2 samples of 32 tokens with 32 features.
    EXPECT_EQ(offloaded->at("activations_peak_bytes"), (Json{3 * 8192, 3 * 8192}));
  }
  EXPECT_FALSE(none.contains("activations_peak_bytes"));
  EXPECT_EQ(host.at("host_memory_bytes")[0].at("activation"), 3 * 8192);
  EXPECT_EQ(host.at("activations_written_bytes_per_step"), (Json{0, 0}));
  EXPECT_EQ(disk.at("activations_written_bytes_per_step"), (Json{2 * 3 * 8192, 2 * 3 * 8192}));
  EXPECT_EQ(disk.at("host_memory_bytes")[0].at("activation"), 0);
  EXPECT_GT(disk.at("disk_bytes")[0].at("activation"), 0);
  EXPECT_NE(disk.at("disk"), "");
  EXPECT_GE(link.at("link_down_bytes_per_step")[0].get<std::int64_t>(), 2 * 3 * 8192);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "disk")) << "no file is left";
}

// The refusal comes before any file is written.
TEST_F(CheckpointActivationsSlow, RefusesOffloadToAMissingDisk) {
  const Ran ran = folder_.zero(
      "train c.toml --train.checkpoint_activations true --train.offload_activations disk --run.dir run "
      "--zero.disk nowhere",
      "timeout 250");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("zero.disk"), std::string::npos) << ran.errors;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

// The inputs of three blocks take 24 KiB.
TEST_F(CheckpointActivationsSlow, OffloadedOnesCountInTheBudget) {
  const std::string offloaded = "--train.checkpoint_activations true --train.offload_activations host ";
  const std::string refused = offloaded + "--zero.host_memory 23KiB --run.dir refused";
  for (const char* verb : {"train c.toml -n 2 ", "plan c.toml --world 2 "}) {
    const Ran ran = folder_.zero(verb + refused, "timeout 250");
    EXPECT_EQ(ran.status, 2);
    EXPECT_NE(ran.errors.find("zero.host_memory"), std::string::npos) << ran.errors;
    EXPECT_NE(ran.errors.find("takes 24576 B of it a rank"), std::string::npos) << ran.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "refused"));

  // With moments: a budget that holds inputs or moments, but not both.
  const std::string moments = "--zero.optimizer '{host=1}' ";
  const Json both = report_of("-n 2 " + offloaded + moments + "--zero.host_memory 64MiB", "both");
  ASSERT_TRUE(both.is_object());
  const std::int64_t held = both.at("host_memory_bytes")[0].at("total").get<std::int64_t>();
  EXPECT_EQ(both.at("host_memory_bytes")[0].at("activation"), 3 * 8192);
  const std::string exact = fmt::format("{}B ", held), less = fmt::format("{}B ", held - 4096);
  EXPECT_TRUE(report_of("-n 2 " + offloaded + moments + "--zero.host_memory " + exact, "exact").is_object());
  const Ran ran = folder_.zero("train c.toml -n 2 --run.dir less " + offloaded + moments + "--zero.host_memory " + less,
                               "timeout 250");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_NE(ran.errors.find("zero.host_memory"), std::string::npos) << ran.errors;
  EXPECT_NE(ran.output.find("24.0 KiB a rank offloaded on the host, taken off its budget"), std::string::npos)
      << ran.output;
}

TEST_F(CheckpointActivationsSlow, PlanPrintsTheirSchedule) {
  const auto moves = [&](const std::string& flag) {
    const Ran ran = folder_.zero("plan c.toml --world 4 --schedule --zero.device_memory min " + flag, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return ran.output.substr(std::min(ran.output.size(), ran.output.find("\nschedule: ")));
  };
  const std::string without = moves("");
  EXPECT_NE(without.find("access transformer.h.1"), std::string::npos) << without;
  EXPECT_EQ(moves("--train.checkpoint_activations true"), without)
      << "a block's second run comes right before its backward pass: no unit is gathered once more";
}

}  // namespace
}  // namespace zero
