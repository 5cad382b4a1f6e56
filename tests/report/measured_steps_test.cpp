#include "app/report/measured_steps.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(MeasuredSteps, MediansLeaveTheWarmUpOut) {
  MeasuredSteps steps;
  for (const double seconds : {90.0, 80.0, 70.0, 2.0, 6.0, 4.0}) {
    StepMetrics metrics{.seconds = 10 * seconds, .forward = seconds, .backward = 2 * seconds};
    metrics.work.update = 3 * seconds;
    steps.add(metrics, 0.5 * seconds);
  }
  const MeasuredStep typical = steps.median();
  EXPECT_EQ(typical.forward, 4);
  EXPECT_EQ(typical.backward, 8);
  EXPECT_EQ(typical.update, 12);
  EXPECT_EQ(typical.exposed, 2);
  EXPECT_EQ(typical.total, 40);
}

TEST(MeasuredSteps, TransfersAreMediansAfterWarmUp) {
  MeasuredSteps steps;
  for (const std::int64_t bytes : {900, 800, 700, 2, 6, 4}) {
    EXPECT_FALSE(steps.past_warmup() && bytes > 6);
    StepMetrics metrics;
    metrics.transfers = {.requests = {.disk = {.read_bytes = bytes, .busy_seconds = 2.0 * static_cast<double>(bytes)}},
                         .link = {.down_bytes = 10 - bytes}};
    steps.add(metrics, 0);
  }
  EXPECT_TRUE(steps.past_warmup());
  EXPECT_EQ(steps.transfers().requests.disk.read_bytes, 4);
  EXPECT_EQ(steps.transfers().requests.disk.written_bytes, 0);
  EXPECT_EQ(steps.transfers().requests.disk.busy_seconds, 8);
  EXPECT_EQ(steps.transfers().link.down_bytes, 6);
}

TEST(MeasuredSteps, LongRunCountsLastTransfers) {
  MeasuredSteps steps;
  for (std::size_t i = 0; i < 2 * MeasuredSteps::kMostTransfers + 7; ++i) {
    StepMetrics metrics;
    metrics.transfers = {.requests = {.disk = {.read_bytes = i < MeasuredSteps::kMostTransfers + 7 ? 1 : 5}}};
    steps.add(metrics, 0);
  }
  EXPECT_EQ(steps.transfers().requests.disk.read_bytes, 5) << "the first half is forgotten, all of it";
}

}  // namespace
}  // namespace zero
