// Training on tokens in several files.
#include <cstdint>
#include <string>

#include "tests/cli/training_test.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string some_tokens(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    const auto token = static_cast<std::uint16_t>((i * i / 7 + i) % 60);
    bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return bytes;
}

constexpr const char* kStepsOfShards =
    "[train]\nsteps = 6\nbatch = 2\nclip = 0\neval_every = 0\n[checkpoint]\nevery = 3\n[run]\nthreads = 1\n";

class ShardsOfData : public TrainingTest {
 protected:
  ShardsOfData() : TrainingTest(small_gpt(kStepsOfShards)) {}
  void SetUp() override {
    TrainingTest::SetUp();
    folder_.write("whole.bin", some_tokens(0, 900));
    folder_.write("shards/t_1.bin", some_tokens(0, 333));
    folder_.write("shards/t_2.bin", some_tokens(333, 10));  // shorter than a window
    folder_.write("shards/t_3.bin", some_tokens(343, 557));
  }
  static constexpr const char* kWhole = "--data.kind tokens --data.path whole.bin ";
  static constexpr const char* kShards = "--data.kind tokens --data.path 'shards/t_*.bin' ";
};

TEST_F(ShardsOfData, TrainTheBitsOfTheWhole) {
  const auto whole = report_of(std::string(kWhole) + "-n 2", "whole");
  const auto shards = report_of(std::string(kShards) + "-n 2", "shards-2");
  EXPECT_EQ(shards.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(shards.at("val_loss"), whole.at("val_loss"));
  EXPECT_EQ(shards.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_TRUE(
      says(folder_.read("shards-2/config.toml"), R"(path = ["shards/t_1.bin", "shards/t_2.bin", "shards/t_3.bin"])"));
}

// If the files changed, the run reports that.
TEST_F(ShardsOfData, ContinuedRunTakesSameSamples) {
  const auto whole = report_of(std::string(kShards) + "-n 2", "whole");
  report_of(std::string(kShards) + "-n 2 --train.steps 3 --schedule.warmup 3 --schedule.name constant", "cut");
  const auto straight =
      report_of(std::string(kShards) + "-n 2 --schedule.warmup 3 --schedule.name constant", "straight");
  const auto cut = report_of(std::string(kShards) + "-n 2 --schedule.warmup 3 --schedule.name constant", "cut");
  EXPECT_EQ(cut.at("parameters_sha256"), straight.at("parameters_sha256"));

  folder_.write("shards/t_4.bin", some_tokens(900, 100));
  const Ran ran = folder_.zero("train c.toml " + std::string(kShards) +
                                   "-n 2 --schedule.warmup 3 --schedule.name constant --train.steps 9 --run.dir cut",
                               "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "of which changed:")) << ran.output;
  EXPECT_TRUE(says(ran.output, "data.path")) << ran.output;
  EXPECT_TRUE(says(ran.output, "shards/t_4.bin")) << ran.output;
}

TEST_F(ShardsOfData, BadShardEndsWithStatusTwo) {
  const auto refused = [&](const std::string& why) {
    const Ran ran = folder_.zero("train c.toml " + std::string(kShards) + "--run.dir refused", "timeout 100");
    EXPECT_EQ(ran.status, 2) << ran.errors;
    EXPECT_TRUE(says(ran.errors, why)) << ran.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "refused"));
  };
  folder_.write("shards/t_2.bin", "");
  refused("\"shards/t_2.bin\": an empty file");
  folder_.write("shards/t_2.bin", std::string("\xa1\xd9\x34\x01\x07\0\0\0\x01\0\0\0", 12) + std::string(1016, '\0'));
  refused("shards/t_2.bin: holds llm.c uint32 tokens of 4 bytes, but shards/t_1.bin holds nanoGPT uint16");
  folder_.write("shards/t_2.bin", std::string("\x07\0\xff\xff\x07\0", 6));
  refused("token 1 of shards/t_2.bin is 65535");
}

}  // namespace
}  // namespace zero
