#include "zero/device/lane_times.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/device/host_device.h"

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = 256;
constexpr double kOperation = 1e-3;  // duration in a RecordedDevice

void work(Device& device, Lane lane, std::span<std::byte> bytes, int operations) {
  for (int i = 0; i < operations; ++i) device.fill(lane, bytes, std::byte{1});
}

TEST(LaneTimes, CountsSecondsByActivity) {
  RecordedDevice device;
  const Allocation memory = device.allocate(kBytes), other = device.allocate(kBytes);
  LaneTimes times(device);
  for (int round = 0; round < 2; ++round) {
    const LaneSpan update(times, Lane::kUpdate, Activity::kUpdate);
    work(device, Lane::kUpdate, memory.bytes(), 3);
  }
  {
    const LaneSpan up(times, Lane::kUp, Activity::kLinkUp);
    work(device, Lane::kUp, other.bytes(), 1);
  }
  EXPECT_EQ(times.seconds(Activity::kUpdate), 0) << "nobody has read them";
  times.read();
  EXPECT_NEAR(times.seconds(Activity::kUpdate), 6 * kOperation, 1e-9);
  EXPECT_NEAR(times.seconds(Activity::kLinkUp), kOperation, 1e-9);
  EXPECT_EQ(times.seconds(Activity::kLinkDown), 0);
  join_all(device);
}

TEST(LaneTimes, ReadsUnfinishedSpansLater) {
  RecordedDevice device({.late = 3});
  const Allocation memory = device.allocate(kBytes);
  LaneTimes times(device);
  {
    const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate);
    work(device, Lane::kUpdate, memory.bytes(), 2);
  }
  times.read();
  EXPECT_EQ(times.seconds(Activity::kUpdate), 0);
  join_all(device);
  times.read();
  EXPECT_NEAR(times.seconds(Activity::kUpdate), 2 * kOperation, 1e-9);
  times.read();
  EXPECT_NEAR(times.seconds(Activity::kUpdate), 2 * kOperation, 1e-9) << "it is read once";
}

// The timeline of a device that has done nothing before the host looks for its spans.
class ShownLaneTimes : public testing::Test {
 protected:
  const std::vector<TimelineSpan>& shown() const { return timeline_.spans(); }
  void update(int operations) {
    const LaneSpan span(times_, Lane::kUpdate, Activity::kUpdate, /*unit=*/3, /*bytes=*/64);
    work(device_, Lane::kUpdate, memory_.bytes(), operations);
  }

  Timeline timeline_;
  RecordedDevice device_{{.late = 3}};
  Allocation memory_ = device_.allocate(kBytes);
  LaneTimes times_{device_, &timeline_};
};

TEST_F(ShownLaneTimes, AreSpansOnTheHostsClock) {
  timeline_.start();
  update(2);
  update(1);
  EXPECT_TRUE(shown().empty());
  timeline_.stop();
  ASSERT_EQ(shown().size(), 2U) << "the host waits for the marks at the end";
  EXPECT_GE(shown().front().begin, timeline_.origin());
  EXPECT_NEAR(shown().front().end - shown().front().begin, 2 * kOperation, 1e-9);
  EXPECT_NEAR(shown().back().begin, shown().front().end, 1e-9);
  EXPECT_NEAR(shown().back().end - shown().back().begin, kOperation, 1e-9);
  EXPECT_EQ(shown().front().unit, 3);
  EXPECT_EQ(shown().front().bytes, 64);
  EXPECT_EQ(shown().front().activity, Activity::kUpdate);
}

TEST_F(ShownLaneTimes, ExcludeWorkOutsideTheRecording) {
  update(1);
  join_all(device_);
  timeline_.start();
  update(1);
  timeline_.stop();
  update(1);
  join_all(device_);
  times_.read();
  EXPECT_EQ(shown().size(), 1U);
  EXPECT_NEAR(times_.seconds(Activity::kUpdate), 3 * kOperation, 1e-9) << "all count";
  timeline_.start();
  update(1);
  timeline_.stop();
  EXPECT_EQ(shown().size(), 1U) << "a second start discards earlier spans";
}

TEST_F(ShownLaneTimes, NestedSpansAddNoSeconds) {
  timeline_.start();
  const Mark begin = times_.mark(Lane::kCompute);
  device_.wait(Lane::kCompute, device_.mark(Lane::kUpdate));
  times_.show(Activity::kForward, -1, begin, times_.mark(Lane::kCompute));
  timeline_.stop();
  ASSERT_EQ(shown().size(), 1U);
  EXPECT_EQ(times_.seconds(Activity::kForward), 0);
  times_.show(Activity::kForward, -1, begin, times_.mark(Lane::kCompute));
  timeline_.start();
  timeline_.stop();
  EXPECT_TRUE(shown().empty()) << "it was not recorded";
}

TEST_F(ShownLaneTimes, ReplaceHostPassesAndWaits) {
  timeline_.start();
  for (const Activity activity : {Activity::kForward, Activity::kBackward, Activity::kStep, Activity::kWaitGather,
                                  Activity::kWaitReduce, Activity::kWaitDisk, Activity::kWaitLink})
    const TimedSpan span(&timeline_, activity);
  EXPECT_TRUE(shown().empty());
  for (const Activity activity :
       {Activity::kEvaluate, Activity::kWaitData, Activity::kGather, Activity::kReduce, Activity::kDiskRead})
    const TimedSpan span(&timeline_, activity);
  EXPECT_EQ(shown().size(), 5U);
  timeline_.stop();
}

TEST(LaneTimes, MayEndBeforeTheTimelineStops) {
  Timeline timeline;
  timeline.start();
  {
    RecordedDevice device;
    const Allocation memory = device.allocate(kBytes);
    LaneTimes times(device, &timeline);
    const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate);
    device.fill(Lane::kUpdate, memory.bytes(), std::byte{1});
    join_all(device);
  }
  timeline.stop();
  EXPECT_TRUE(timeline.spans().empty());
}

// The lanes of main memory have no times.
TEST(LaneTimes, MainMemoryKeepsHostPasses) {
  Timeline timeline;
  LaneTimes times(HostDevice::instance(), &timeline);
  timeline.start();
  EXPECT_TRUE(times.mark(Lane::kUpdate).empty());
  { const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate); }
  { const TimedSpan forward(&timeline, Activity::kForward); }
  timeline.stop();
  times.read();
  EXPECT_EQ(times.seconds(Activity::kUpdate), 0);
  ASSERT_EQ(timeline.spans().size(), 1U);
  EXPECT_EQ(timeline.spans().front().activity, Activity::kForward);
}

}  // namespace
}  // namespace zero
