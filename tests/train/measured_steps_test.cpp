#include "zero/train/measured_steps.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr auto kUpdatePhase = static_cast<std::size_t>(StepPhase::kUpdate);

TEST(MeasuredSteps, MediansLeaveTheWarmUpOut) {
  MeasuredSteps steps;
  for (const double seconds : {90.0, 80.0, 70.0, 2.0, 6.0, 4.0}) {
    StepMetrics metrics{.seconds = 10 * seconds, .forward = seconds, .backward = 2 * seconds};
    metrics.phases.update = 3 * seconds;
    steps.add(metrics, 0.5 * seconds);
  }
  const MeasuredStep typical = steps.median();
  EXPECT_EQ(typical.forward, 4);
  EXPECT_EQ(typical.backward, 8);
  EXPECT_EQ(typical.update, 12);
  EXPECT_EQ(typical.exposed, 2);
  EXPECT_EQ(typical.total, 40);
}

TEST(MeasuredSteps, APredictionComputesWhatTransfersAndUpdateLeave) {
  PredictedStep transfers;
  transfers.busy[kUpdatePhase][static_cast<std::size_t>(Resource::kUpdate)] = 1;
  transfers.busy[kUpdatePhase][static_cast<std::size_t>(Resource::kDisk)] = 5;
  const PredictedStep step = prediction(transfers, {.forward = 2, .backward = 4, .exposed = 3, .total = 10});
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kForward), 2) << "a third of 10 - 3 - 1";
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kBackward), 4);
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kUpdate), 5);
  EXPECT_EQ(step.bound(StepPhase::kUpdate), Resource::kDisk);
}

TEST(MeasuredSteps, NothingMeasuredPredictsTransfersAlone) {
  PredictedStep transfers;
  transfers.busy[kUpdatePhase][static_cast<std::size_t>(Resource::kDisk)] = 5;
  EXPECT_EQ(prediction(transfers, MeasuredSteps().median()).total(), 5);
}

}  // namespace
}  // namespace zero
