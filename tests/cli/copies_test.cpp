// `--zero.group`: processes that hold a model once in each group train what others train, go on where others stopped, and
// say what crosses between groups.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/message_of.h"
#include "training_test.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Groups : public TrainingTest {
 protected:
  Groups()
      : TrainingTest(small_gpt(R"([train]
steps = 6
batch = 1
accumulate = 2
clip = 0.25
[schedule]
name = "constant"
warmup = 0
[run]
threads = 1
)",
                               "validation = 0\n")) {}
};

TEST_F(Groups, TrainAndGoOnWithTheBitsOfARunWithoutThem) {
  const Json whole = report_of("-n 4", "whole");
  ASSERT_TRUE(whole.is_object());
  EXPECT_FALSE(whole.contains("copies"));
  const Json half = report_of("-n 4 --zero.group 2 --train.steps 3 --checkpoint.every 3", "halves");
  ASSERT_TRUE(half.is_object());
  EXPECT_EQ(half.at("transport"), "shared_memory");
  EXPECT_EQ(half.at("copies").at("number"), 2);
  for (const Json& sent : half.at("copies").at("sent_bytes_per_step")) {
    EXPECT_EQ(sent, half.at("copies").at("planned_sent_bytes"));
    EXPECT_GE(sent, half.at("copies").at("formula").at("sent_bytes"));
  }
  EXPECT_EQ(half.at("sent_bytes_per_step")[3], half.at("planned_sent_bytes"));
  EXPECT_TRUE(says(folder_.read("halves/metrics.jsonl"), R"("sent_between_copies": )"));
  const Json rest = report_of("-n 4 --zero.stage 1 --zero.group 1 --checkpoint.every 3", "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_EQ(rest.at("grad_norms"), whole.at("grad_norms"));
  for (const Json& norm : whole.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
}

TEST_F(Groups, OfAnotherSizeThanDividesTheRanksAreRefusedBeforeAnythingStarts) {
  const Ran ran = folder_.zero("train c.toml -n 4 --zero.group 3", "timeout 60");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_TRUE(says(ran.errors, "zero.group = 3: 4 ranks cannot be divided into groups of this size"));
  EXPECT_TRUE(says(ran.errors, "one of 1, 2, 4"));
  EXPECT_EQ(folder_.zero("plan c.toml -n 4 --zero.group 3").status, 2);
}

TEST_F(Groups, ArePlannedAsWhatARankOfOneCopyHolds) {
  const auto plan = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml --json " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, false);
  };
  const Json two = plan("-n 2"), four = plan("-n 4 --zero.group 2");
  ASSERT_TRUE(two.is_object() && four.is_object());
  EXPECT_EQ(four.at("shard_ranks"), 2);
  EXPECT_EQ(four.at("copies"), 2);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const Json &of_two = two.at("stages")[stage], &of_four = four.at("stages")[stage];
    EXPECT_EQ(of_four.at("memory_bytes"), of_two.at("memory_bytes"));
    const auto crossing = of_four.at("between_copies").at("sent_bytes").get<std::int64_t>();
    EXPECT_EQ(of_four.at("sent_bytes"), of_two.at("sent_bytes").get<std::int64_t>() + crossing);
    EXPECT_GT(crossing, 0);
  }
  const Ran text = folder_.zero("plan c.toml -n 4 --zero.group 2");
  EXPECT_TRUE(says(text.output, "copies     2 of the model, each on 2 ranks")) << text.output;
}

}  // namespace
}  // namespace zero
