// Times that a GPU reports for its own work, against the host's clock.
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/process/clock.h"
#include "zero/device/lane_times.h"

#include "tests/cuda/on_the_gpu.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr double kClocks = 2e-3;  // allowed difference of the two clocks

class TimesOnTheGpu : public OnTheGpu {
 protected:
  void SetUp() override {
    OnTheGpu::SetUp();
    if (!IsSkipped() && device().host_readable()) GTEST_SKIP() << "main memory has no lanes to time";
  }
  void copy(int times) {
    for (int i = 0; i < times; ++i) device().copy(Lane::kUpdate, to_.bytes(), from_.bytes());
  }
  void take_memory() {
    from_ = device().allocate(kBytes);
    to_ = device().allocate(kBytes);
    copy(1);
    join_all(device());
  }

 private:
  Allocation from_, to_;
};

TEST_F(TimesOnTheGpu, GrowWithWorkWithinHostTimes) {
  take_memory();
  const double begin = monotonic_seconds();
  const Mark first = device().timed_mark(Lane::kUpdate);
  copy(4);
  const Mark second = device().timed_mark(Lane::kUpdate);
  copy(64);
  const Mark third = device().timed_mark(Lane::kUpdate);
  device().join(third);
  const double all = monotonic_seconds() - begin;
  const auto few = device().seconds_between(first, second), many = device().seconds_between(second, third);
  ASSERT_TRUE(few && many) << "both marks are done";
  EXPECT_GT(*few, 0);
  EXPECT_GT(*many, *few);
  EXPECT_LE(*few + *many, all + kClocks);
}

TEST_F(TimesOnTheGpu, AreSpansOnTheHostsClock) {
  take_memory();
  Timeline timeline;
  LaneTimes times(device(), &timeline);
  timeline.start();
  for (int round = 0; round < 3; ++round) {
    const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate, round);
    copy(16);
  }
  timeline.stop();
  const double end = monotonic_seconds();
  ASSERT_EQ(timeline.spans().size(), 3U);
  double before = timeline.origin();
  for (const TimelineSpan& span : timeline.spans()) {
    EXPECT_GE(span.begin, before - kClocks);
    EXPECT_GT(span.end, span.begin);
    before = span.end;
  }
  EXPECT_LE(before, end + kClocks);
  EXPECT_GT(times.seconds(Activity::kUpdate), 0);
}

}  // namespace
}  // namespace zero
