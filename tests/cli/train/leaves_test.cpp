// `train.leaves`: whole runs of several numbers of processes with the same bits, and refused keys.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/json_lines.h"
#include "tests/support/message_of.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class LeafRuns : public TrainingTest {
 protected:
  LeafRuns()
      : TrainingTest(
            small_gpt(at_one_rate("steps = 4\nglobal_batch = 8\nleaves = 4\neval_every = 2\neval_batches = 3\n"))) {}
  // With dropout.
  void train(const std::string& flags, const std::string& run) const {
    EXPECT_TRUE(report_of("--model.dropout 0.1 " + flags, run).is_object()) << flags;
  }
  std::string hash_of(const std::string& run) const {
    const Json report = Json::parse(folder_.read(run + "/report.json"), nullptr, /*allow_exceptions=*/false);
    return report.is_object() ? report.at("parameters_sha256").dump() : "no report";
  }
  // Losses, norms and validation losses, with all digits.
  std::vector<std::string> values_of(const std::string& run) const {
    std::vector<std::string> values;
    for (const Json& line : json_lines(folder_.read(run + "/metrics.jsonl")))
      for (const char* const key : {"loss", "grad_norm", "val_loss"})
        if (line.contains(key)) values.push_back(line.at(key).dump());
    return values;
  }
  void expect_same(const std::string& run, const std::string& expected) const {
    EXPECT_EQ(values_of(run), values_of(expected));
    EXPECT_EQ(hash_of(run), hash_of(expected));
  }
  // Trains ten steps in eight leaves, with dropout and evaluations of all samples. Each flag trains two steps, and
  // resumes the checkpoint of the flag before.
  void train_in_turn(const std::vector<std::string>& flags, const std::string& run) const {
    for (std::size_t part = 0; part < flags.size(); ++part)
      train(flags[part] + " --train.leaves 8 --train.global_batch 16 --train.eval_batches 0 --checkpoint.every 2" +
                " --train.steps " + std::to_string(10 * (part + 1) / flags.size()),
            run);
  }
};
using LeafRunsSlow = LeafRuns;
using LeafRunsFull = LeafRuns;

TEST_F(LeafRunsSlow, WorldsAndReductionsKeepBits) {
  train("-n 1", "one");
  EXPECT_GT(values_of("one").size(), 8U);
  int number = 0;
  for (const char* const flags :
       {"-n 2", "-n 4 --zero.stage 1", "-n 3 --zero.stage 2", "-n 1 --train.reduce last --zero.stage 0"}) {
    const std::string run = "other" + std::to_string(number++);
    train(flags, run);
    expect_same(run, "one");
  }
}

// With dropout, whose numbers go by leaf, and evaluations.
TEST_F(LeafRunsSlow, PipelinesKeepBits) {
  train("-n 1", "one");
  train("-n 2 --parallel.pipeline 2", "line");
  expect_same("line", "one");
  train("-n 4 --parallel.pipeline 2 --parallel.schedule zb-h1 --zero.stage 3", "lines");
  expect_same("lines", "one");
  // Three lines begin, and one rank ends.
  train("-n 6 --parallel.pipeline 2 --train.steps 2 --checkpoint.every 2", "resumed");
  train("-n 1", "resumed");
  EXPECT_EQ(values_of("resumed").back(), values_of("one").back());
  EXPECT_EQ(hash_of("resumed"), hash_of("one"));
  const Ran ran = folder_.zero("verify one --steps 0..2 -n 4 --parallel.pipeline 2", "timeout 100");
  EXPECT_EQ(ran.status, 0) << ran.output << ran.errors;
}

TEST_F(LeafRunsSlow, ResumeInAnotherWorldKeepsBits) {
  train("-n 1", "one");
  train("-n 2 --train.steps 2 --checkpoint.every 2", "resumed");
  train("-n 3", "resumed");
  EXPECT_EQ(values_of("resumed").back(), values_of("one").back());
  EXPECT_EQ(hash_of("resumed"), hash_of("one"));
}

TEST_F(LeafRunsSlow, WorldsInTurnKeepBits) {
  train_in_turn({"-n 2"}, "one");
  EXPECT_EQ(values_of("one").size(), 25U) << "10 losses, 10 norms and 5 evaluations";
  train_in_turn({"-n 4", "-n 2 --zero.stage 1", "-n 3 --zero.stage 2", "-n 8", "-n 1 --zero.stage 0"}, "turns");
  expect_same("turns", "one");
}

// 4 ranks, 2 lines of 2, a line of 3, 6 ranks, 1 rank.
TEST_F(LeafRunsFull, MeshesInTurnKeepBits) {
  train_in_turn({"-n 2"}, "one");
  train_in_turn({"-n 4", "-n 4 --parallel.pipeline 2 --parallel.schedule zb-h1",
                 "-n 3 --parallel.pipeline 3 --parallel.schedule gpipe --zero.stage 1", "-n 6 --zero.stage 2", "-n 1"},
                "turns");
  expect_same("turns", "one");
}

TEST_F(LeafRunsSlow, TransportsKeepBits) {
  train("-n 1", "one");
  if (ZERO_HAS_GLOO) {
    train("-n 3 --zero.stage 2 --comm.transport gloo", "gloo");
    expect_same("gloo", "one");
  }
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "this build has no mpirun";
  const Ran ran = folder_.zero("train c.toml --run.dir mpi --model.dropout 0.1 --comm.transport mpi",
                               "timeout 250 " + mpirun_ranks(4));
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  expect_same("mpi", "one");
}

// Each rank has two micro-batches. Under the min budget the second one gathers weights from secondary parts.
TEST_F(LeafRunsSlow, SecondaryPartsKeepBits) {
  const std::string leaves = " --train.leaves 8 --train.global_batch 16";
  train("-n 1" + leaves, "one");
  train("-n 4 --zero.secondary_group 2 --zero.device_memory min" + leaves, "parts");
  expect_same("parts", "one");
  const Json report = Json::parse(folder_.read("parts/report.json"), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(report.is_object() && report.contains("secondary"));
  EXPECT_GT(report.at("secondary").at("sent_bytes_per_step").at(0).get<std::int64_t>(), 0);
}

// The run's own file names no number of micro-batches, so it fits any ranks.
TEST_F(LeafRunsSlow, OwnFileContinuesInAnotherWorld) {
  train("-n 1", "one");
  train("-n 2 --train.steps 2 --checkpoint.every 2", "again");
  const Ran ran = folder_.zero("train again/config.toml -n 3 --train.steps 4", "timeout 250");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  EXPECT_EQ(hash_of("again"), hash_of("one"));
}

TEST_F(LeafRunsSlow, OtherRanksVerifyTheRun) {
  train("-n 2 --checkpoint.every 2 --run.threads 1", "run");
  for (const char* const flags : {"-n 1", "-n 3 --zero.stage 1"}) {
    const Ran ran = folder_.zero(std::string("verify run ") + flags, "timeout 100");
    EXPECT_EQ(ran.status, 0) << flags << ran.output << ran.errors;
    EXPECT_TRUE(says(ran.output, "equal: no difference")) << ran.output;
  }
}

TEST_F(LeafRuns, WrongNumbersEndWithStatusTwo) {
  for (const auto& [flags, says_so] :
       {std::pair("-n 2 --train.leaves 3", "train.leaves = 3: does not divide train.global_batch = 8"),
        std::pair("-n 8", "train.leaves = 4: 8 ranks have no leaf each"),
        std::pair("-n 3 --train.reduce each", "train.reduce = \"last\""),
        std::pair("-n 2 --train.accumulate 3", "train.accumulate = 3: 2 ranks compute train.leaves = 4"),
        std::pair("-n 3 --sync.mode async --sync.servers 1", "train.leaves = 4"),
        std::pair("-n 2 --sync.mode local", "train.leaves = 4"),
        std::pair("-n 2 --zero.delayed_update true", "(zero.delayed_update)"),
        std::pair("-n 2 --train.share auto", "(train.share)"),
        std::pair("-n 2 --train.gradient_noise 0.1", "(train.gradient_noise)"),
        std::pair("-n 2 --comm.reduce_wire int8", "comm.reduce_wire"),
        std::pair("-n 2 --zero.group 1", "(zero.group)")}) {
    const Ran ran = folder_.zero(std::string("train c.toml --run.dir refused ") + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags << ran.errors;
    EXPECT_TRUE(says(ran.errors, says_so)) << flags << "\n" << ran.errors;
  }
}

}  // namespace
}  // namespace zero
