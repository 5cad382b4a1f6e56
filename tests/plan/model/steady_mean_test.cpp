#include "zero/plan/model/steady_mean.h"

#include <initializer_list>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

SteadyMean of(std::initializer_list<double> seconds) {
  SteadyMean mean;
  for (const double step : seconds) mean.add(step);
  return mean;
}

TEST(SteadyMean, IsDueAfterEachPeriod) {
  SteadyMean mean;
  EXPECT_FALSE(mean.is_due());
  for (std::size_t step = 1; step <= 3 * SteadyMean::kMost; ++step) {
    mean.add(1);
    EXPECT_EQ(mean.is_due(), step % SteadyMean::kPeriod == 0) << step;
  }
  mean.restart();
  EXPECT_FALSE(mean.is_due());
  EXPECT_THROW(mean.value(), InternalError);
}

TEST(SteadyMean, LeavesOutOneStall) {
  EXPECT_DOUBLE_EQ(of({1, 9, 1, 1}).value(), 1);
  EXPECT_EQ(of({1, 9, 1, 1}).error(), 0);
}

TEST(SteadyMean, RecurringStopsHaveTheirMean) {
  EXPECT_DOUBLE_EQ(of({1, 2, 2, 1}).value(), 1.5);
  EXPECT_DOUBLE_EQ(of({1, 2, 2, 1, 2, 1, 1, 2}).value(), 1.5);
}

TEST(SteadyMean, ComesCloserFromPeriodToPeriod) {
  EXPECT_GT(of({1, 1.2, 1.2, 1}).error(), 0.05);
  EXPECT_LT(of({1, 1.2, 1.2, 1, 1, 1.2, 1.2, 1}).error(), of({1, 1.2, 1.2, 1}).error());
}

TEST(SteadyMean, ForgetsAnotherPace) {
  SteadyMean mean = of({1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 4, 4});
  EXPECT_DOUBLE_EQ(mean.value(), 4);
  EXPECT_TRUE(mean.is_due());
  for (std::size_t step = 0; step < SteadyMean::kMost; ++step) mean.add(4.4);  // counts as unchanged
  EXPECT_DOUBLE_EQ(mean.value(), 4.4) << "older values are also forgotten";
}

}  // namespace
}  // namespace zero
