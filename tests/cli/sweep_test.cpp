// `zero sweep` on the command line.
#include <filesystem>

#include "tests/cli/training_test.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

class Sweep : public TrainingTest {
 protected:
  Sweep()
      : TrainingTest(
            "[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n[data]\npath = \"input.txt\"\n"
            "[train]\nsteps = 3\nbatch = 2\neval_batches = 1\n[schedule]\nwarmup = 0\n[checkpoint]\nevery = 0\n") {}
};
using SweepSlow = Sweep;

TEST_F(SweepSlow, TrainsAndComparesEachCombination) {
  const std::string line = "sweep c.toml --over zero.stage=0,3 --over ranks=1,2 --dir grid";
  const Ran first = folder_.zero(line, "timeout 250");
  ASSERT_EQ(first.status, 0) << first.errors << first.output;
  EXPECT_TRUE(says(first.output, "[1/4] zero.stage=0 ranks=1: val_loss ")) << first.output;
  EXPECT_TRUE(says(first.output, "[4/4] zero.stage=3 ranks=2: val_loss ")) << first.output;
  EXPECT_TRUE(says(first.output, "\nrun  ")) << first.output;
  EXPECT_TRUE(says(first.output, "\nstage-3_ranks-2  ")) << first.output;
  for (const char* column : {"val_loss", "a step", "a second", "utilization", "device", "sent a step"})
    EXPECT_TRUE(says(first.output, std::string("  ") + column)) << column;
  EXPECT_TRUE(says(first.output, "\nutilization: against the fastest matrix product that one of these runs probed"))
      << first.output;
  EXPECT_TRUE(says(first.output, "grid/report.html: 4 runs side by side")) << first.output;
  const auto hash_of = [&](const std::string& run) {
    return nlohmann::json::parse(folder_.read("grid/" + run + "/report.json")).at("parameters_sha256");
  };
  EXPECT_EQ(hash_of("stage-0_ranks-2"), hash_of("stage-3_ranks-2")) << "all stages have the same bits";
  EXPECT_TRUE(says(folder_.read("grid/report.html"), "stage-3_ranks-1"));

  const Ran second = folder_.zero(line, "timeout 250");
  EXPECT_EQ(second.status, 0) << second.errors;
  EXPECT_TRUE(says(second.output, "[4/4] zero.stage=3 ranks=2: done before; val_loss ")) << second.output;

  const Ran other = folder_.zero(line + " --train.steps 4", "timeout 250");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_TRUE(says(other.errors, "another configuration is there: train.steps = 3 -> 4")) << other.errors;
}

TEST_F(SweepSlow, BadCombinationEndsItEarly) {
  const Ran ran = folder_.zero("sweep c.toml --over model.heads=2,3 --dir grid");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(says(ran.errors, "model.heads=3")) << ran.errors;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "grid"));
}

TEST_F(SweepSlow, BlamesNoInnocentValue) {
  folder_.write("bad.toml", "steps\n");
  const auto refusal = [&](const std::string& arguments) {
    const Ran ran = folder_.zero("sweep " + arguments);
    EXPECT_EQ(ran.status, 2) << ran.output;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
    return ran.errors;
  };
  const std::string over = " --over zero.stage=1,2";
  EXPECT_TRUE(refusal("bad.toml" + over).starts_with("zero sweep: bad.toml:1:6: not TOML"));
  EXPECT_TRUE(refusal("none.toml" + over).starts_with("zero sweep: none.toml: No such file"));
  EXPECT_TRUE(refusal("c.toml --train.steps 0" + over).starts_with("zero sweep: command line: train.steps = 0: "));
  EXPECT_TRUE(refusal("c.toml --dir input.txt/x" + over).starts_with("zero sweep: --dir = input.txt/x: "));
  EXPECT_TRUE(says(refusal("c.toml --over train.steps=0,1"), "--over = train.steps=0: "));
}

TEST_F(SweepSlow, WhatWouldBeIgnoredIsRefused) {
  EXPECT_TRUE(
      says(folder_.zero("sweep c.toml --over zero.stage=1,2 --run.dir x").errors, "name their place with --dir"));
  EXPECT_TRUE(says(folder_.zero("sweep c.toml --over ranks=1,2 -n 3").errors, "-n = 3: --over ranks=... says"));
}

// The model is larger than this budget. The configuration does not show that.
TEST_F(SweepSlow, FailedRunDoesNotStopOthers) {
  const Ran ran = folder_.zero("sweep c.toml --over zero.device_memory=1KiB,auto --dir grid", "timeout 250");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_TRUE(says(ran.output, "zero.device_memory=1KiB: failed with exit status 2; see grid/device_memory-1KiB.log"))
      << ran.output;
  EXPECT_TRUE(says(folder_.read("grid/device_memory-1KiB.log"), "zero.device_memory"));
  EXPECT_TRUE(says(ran.output, "[2/2] zero.device_memory=auto: val_loss ")) << ran.output;
}

}  // namespace
}  // namespace zero
