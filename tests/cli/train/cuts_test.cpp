// `--zero.shards`: ranks that own whole parameters or hashed blocks train the same bits as with equal ranges, and
// continue other runs. The plan lists each rank's share and the bytes that move.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/message_of.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Cuts : public TrainingTest {
 protected:
  Cuts()
      : TrainingTest(small_gpt(at_one_rate("steps = 6\nbatch = 1\nclip = 0.25\n"), "validation = 0\n", /*width=*/64)) {}
};
using CutsSlow = Cuts;

TEST_F(CutsSlow, TrainAndContinueWithSameBits) {
  const Json ranges = report_of("-n 3", "ranges");
  ASSERT_TRUE(ranges.is_object());
  const Json half = report_of("-n 3 --zero.shards hash --train.steps 3 --checkpoint.every 3", "cut");
  ASSERT_TRUE(half.is_object());
  EXPECT_EQ(half.at("sent_bytes_per_step")[2], half.at("planned_sent_bytes"));
  const Json rest = report_of("-n 3 --zero.shards whole --zero.stage 2 --checkpoint.every 3", "cut");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), ranges.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), ranges.at("parameters_sha256"));
  EXPECT_EQ(rest.at("grad_norms"), ranges.at("grad_norms"));
  for (const Json& norm : ranges.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
}

// Weighted cuts train and continue with the bits of equal ranges.
TEST_F(CutsSlow, WeightedKeepBitsWhenContinued) {
  const Json ranges = report_of("-n 3", "ranges");
  ASSERT_TRUE(ranges.is_object());
  const Json half =
      report_of("-n 3 --zero.shards weighted --zero.shard_weights [4,1,2] --train.steps 3 --checkpoint.every 3", "cut");
  ASSERT_TRUE(half.is_object());
  EXPECT_EQ(half.at("sent_bytes_per_step")[0], half.at("planned_sent_bytes")) << "of rank 0";
  EXPECT_EQ(half.at("sent_bytes_per_step"), half.at("planned_sent_bytes_of_ranks"));
  EXPECT_LT(half.at("sent_bytes_per_step")[1], half.at("sent_bytes_per_step")[0]);
  const Json rest = report_of("-n 3 --zero.shards weighted --zero.stage 2 --checkpoint.every 3", "cut");  // measured
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), ranges.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), ranges.at("parameters_sha256"));
}

TEST_F(CutsSlow, RefusedByNameBeforeTheStart) {
  const Ran weights = folder_.zero("train c.toml -n 3 --zero.shards weighted --zero.shard_weights [2,1]", "timeout 60");
  EXPECT_EQ(weights.status, 2) << weights.errors;
  EXPECT_TRUE(says(one_line(weights.errors), "2 weights for 3 ranks")) << weights.errors;
  const Ran below = folder_.zero("train c.toml -n 2 --zero.shards hash --zero.stage 2", "timeout 60");
  EXPECT_EQ(below.status, 2) << below.errors;
  EXPECT_TRUE(says(one_line(below.errors), "use zero.stage 3")) << below.errors;
  const Ran unknown = folder_.zero("plan c.toml -n 2 --zero.shards weights");
  EXPECT_EQ(unknown.status, 2) << unknown.errors;
  EXPECT_TRUE(says(unknown.errors, "hash")) << unknown.errors;
}

TEST_F(CutsSlow, PlanShowsOwnedAndMovedBytes) {
  const Ran ran = folder_.zero("plan c.toml -n 3 --zero.shards hash");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(one_line(ran.output), "shards hash: a rank owns")) << ran.output;
  EXPECT_TRUE(says(one_line(ran.output), "When a rank joins,")) << ran.output;
}

}  // namespace
}  // namespace zero
