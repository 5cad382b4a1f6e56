// `zero sweep` on the command line.
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "zero/base/files/file.h"

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
namespace fs = std::filesystem;

// Returns the process that trains into this folder; -1: none does.
pid_t trainer_of(const fs::path& run) {
  const std::string word = "--run.dir=" + run.string() + '\0';
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string words{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (words.find(word) != std::string::npos) return pid;
  }
  return -1;
}

// Sends a signal to the process that trains into a folder, after its second step.
class Strike {
 public:
  Strike(const fs::path& run, int signal) : thread_([this, run, signal] { send(run, signal); }) {}
  Strike(const Strike&) = delete;
  Strike& operator=(const Strike&) = delete;
  ~Strike() {
    is_over_ = true;
    thread_.join();
  }

 private:
  void send(const fs::path& run, int signal) const {
    for (; !is_over_; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      std::error_code ignored;
      if (!fs::exists(run / "metrics.jsonl", ignored)) continue;
      if (read_file(run / "metrics.jsonl").find("\"step\": 2, ") == std::string::npos) continue;
      if (const pid_t pid = trainer_of(run); pid > 0) {
        kill(pid, signal);
        return;
      }
    }
  }

  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // the last member: it reads the others
};

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

TEST_F(SweepSlow, KilledRunKeepsTheTable) {
  const fs::path grid = folder_.path() / "grid";
  const Strike strike(grid / "steps-1000000", SIGKILL);
  const Ran ran = folder_.zero("sweep c.toml --over train.steps=1000000,3 --dir " + grid.string(), "timeout 250");
  EXPECT_EQ(ran.status, 137) << ran.output;
  EXPECT_TRUE(says(ran.output, "train.steps=1000000: failed with exit status 137; see "));
  EXPECT_TRUE(says(ran.output, "[2/2] train.steps=3: val_loss ")) << ran.output;
  EXPECT_TRUE(says(ran.output, "\nrun  ")) << ran.output;
  EXPECT_TRUE(fs::exists(grid / "report.html"));
}

// The run saves and ends with status 0.
TEST_F(SweepSlow, StoppedRunIsNoSuccess) {
  const fs::path grid = folder_.path() / "grid";
  const Strike strike(grid / "steps-1000000", SIGTERM);
  const Ran ran = folder_.zero(
      "sweep c.toml --checkpoint.every 1000000 --over train.steps=1000000,3 --dir " + grid.string(), "timeout 250");
  EXPECT_EQ(ran.status, 3) << ran.output;
  EXPECT_TRUE(says(ran.output, "train.steps=1000000: stopped before its end; repeat the command to continue it"));
  EXPECT_TRUE(says(ran.output, "[2/2] train.steps=3: val_loss ")) << ran.output;
}

// The run was stopped, and has no checkpoints by choice.
TEST_F(SweepSlow, UnfinishedRunBeginsAgain) {
  const std::string line = "sweep c.toml --over zero.stage=0 --dir grid";
  ASSERT_EQ(folder_.zero(line, "timeout 250").status, 0);
  for (const char* name : {"report.json", "model.safetensors"}) fs::remove(folder_.path() / "grid/stage-0" / name);
  const Ran other = folder_.zero(line + " --optimizer.lr 0.5", "timeout 250");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_TRUE(says(other.errors, "a run of another configuration is there:")) << other.errors;
  EXPECT_TRUE(says(other.errors, "optimizer.lr")) << other.errors;
  const Ran again = folder_.zero(line, "timeout 250");
  EXPECT_EQ(again.status, 0) << again.output << folder_.read("grid/stage-0.log");
  EXPECT_TRUE(says(again.output, "[1/1] zero.stage=0: val_loss ")) << again.output;
}

TEST_F(SweepSlow, EpochsCanBeRepeated) {
  folder_.write("e.toml",
                "[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n[data]\npath = \"input.txt\"\n"
                "[train]\nbatch = 64\neval_batches = 1\n");
  const std::string line = "sweep e.toml --over zero.stage=0 --dir grid --train.epochs ";
  ASSERT_EQ(folder_.zero(line + "1", "timeout 250").status, 0);
  const Ran again = folder_.zero(line + "1", "timeout 250");
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_TRUE(says(again.output, "[1/1] zero.stage=0: done before; val_loss ")) << again.output;
  const Ran longer = folder_.zero(line + "2", "timeout 250");
  EXPECT_EQ(longer.status, 2) << longer.output;
  EXPECT_TRUE(says(longer.errors, "train.steps = ")) << longer.errors;
}

}  // namespace
}  // namespace zero
