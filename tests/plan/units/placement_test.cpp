#include "zero/plan/units/placement.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(Placement, EachStageShardsOneStateMore) {
  EXPECT_EQ(place(0, Reduce::kAuto, 1), (Placement{.reduce_each = true}));
  EXPECT_EQ(place(1, Reduce::kAuto, 1), (Placement{.optimizer_sharded = true, .reduce_each = true}));
  EXPECT_EQ(place(2, Reduce::kAuto, 1),
            (Placement{.gradient_sharded = true, .optimizer_sharded = true, .reduce_each = true}));
  EXPECT_EQ(
      place(3, Reduce::kAuto, 1),
      (Placement{.parameter_sharded = true, .gradient_sharded = true, .optimizer_sharded = true, .reduce_each = true}));
}

// Reduce::kAuto adds in the same order at every stage.
TEST(Placement, AutoOrderMatchesEveryStage) {
  for (int stage = 0; stage <= 3; ++stage) EXPECT_EQ(place(stage, Reduce::kAuto, 4), place(stage, Reduce::kEach, 4));
}

// At every stage.
TEST(Placement, ReducingLastHoldsWholeGradient) {
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_FALSE(place(stage, Reduce::kLast, 2).gradient_sharded) << stage;
    EXPECT_EQ(place(stage, Reduce::kEach, 2).gradient_sharded, stage >= 2) << stage;
  }
}

TEST(Placement, AtAnotherStageAllElseStays) {
  Placement wanted = place(3, Reduce::kLast, 4), placement = place(1, Reduce::kLast, 4);
  for (Placement* const each : {&wanted, &placement}) {
    each->fp32_sums = each->linked = each->device_is_apart = true;
    each->copies = 2;
    each->wire.gather = WireCodec::kInt8;
  }
  EXPECT_EQ(at_stage(placement, 3), wanted);
  placement.tiers.resize(1);
  EXPECT_EQ(at_stage(placement, 3), wanted) << "on the device";
}

// With one micro-batch, kEach and kLast are the same.
TEST(Placement, OneMicroBatchMakesThemEqual) {
  for (int stage = 0; stage <= 3; ++stage) EXPECT_EQ(place(stage, Reduce::kLast, 1), place(stage, Reduce::kEach, 1));
}

TEST(Placement, SumsMicroBatchesInFp32) {
  EXPECT_FALSE(place(2, Reduce::kEach, 1).fp32_gradient());
  EXPECT_TRUE(place(2, Reduce::kEach, 2).fp32_gradient());
}

TEST(Placement, RefusesInvalidStagesAndMicroBatches) {
  for (const int stage : {-1, 4}) {
    try {
      place(stage, Reduce::kAuto, 1);
      ADD_FAILURE() << "accepted stage " << stage;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.stage");
    }
  }
  try {
    place(0, Reduce::kAuto, 0);
    ADD_FAILURE() << "accepted 0 micro-batches";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key(), "train.accumulate");
  }
}

}  // namespace
}  // namespace zero
