// `train.leaves`: whole runs of several numbers of processes with the same bits, and refused keys.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/json_lines.h"
#include "tests/support/message_of.h"

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
};
using LeafRunsSlow = LeafRuns;

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
