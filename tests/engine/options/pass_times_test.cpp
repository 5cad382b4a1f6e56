#include "zero/engine/options/pass_times.h"

#include <gtest/gtest.h>

#include "zero/device/host_device.h"

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = 256;
constexpr double kOperation = 1e-3;  // seconds of an operation of a RecordedDevice

// Passes on a device: operators in lane kCompute wait for gathers in lane kUp.
class PassesOfADevice : public testing::Test {
 protected:
  void compute(int operations) {
    for (int i = 0; i < operations; ++i) device_.fill(Lane::kCompute, operands_.bytes(), std::byte{1});
  }
  void come(EventKind kind, int unit = -1) { times_->comes({kind, unit, {}}); }
  // Lane kCompute reaches an event, and waits for a gather of `operations` operations.
  void wait_at(EventKind kind, int unit, int operations) {
    come(kind, unit);
    for (int i = 0; i < operations; ++i) device_.fill(Lane::kUp, gathered_.bytes(), std::byte{1});
    follow(device_, Lane::kCompute, Lane::kUp);
    times_->goes_on();
  }
  // The forward pass has 2 + 3 operations and waits for 4, the backward pass has 7 and waits for 1, the step has 2.
  void step() {
    wait_at(EventKind::kAccess, 0, 4);
    compute(2);
    come(EventKind::kAccess, 1);
    compute(3);
    come(EventKind::kBackward);
    times_->goes_on();
    compute(1);
    wait_at(EventKind::kAccess, 1, 1);
    compute(4);
    come(EventKind::kGradient, 1);
    compute(2);
    come(EventKind::kGradient, 0);
    come(EventKind::kEndBackward);
    come(EventKind::kStep);
    compute(2);
    times_->step_ends();
  }
  std::vector<TimelineSpan> shown(Activity activity) const {
    std::vector<TimelineSpan> all;
    for (const TimelineSpan& span : timeline_.spans())
      if (span.activity == activity) all.push_back(span);
    return all;
  }
  static double seconds(const TimelineSpan& span) { return span.end - span.begin; }

  Timeline timeline_;
  RecordedDevice device_;
  Allocation operands_ = device_.allocate(kBytes), gathered_ = device_.allocate(kBytes);
  std::unique_ptr<PassTimes> times_ = make_pass_times(device_, 2, {}, &timeline_);

  void TearDown() override { join_all(device_); }
};

TEST_F(PassesOfADevice, CountComputationBetweenWaits) {
  step();
  const StepProfile& computed = times_->computed();
  EXPECT_NEAR(computed.forward_seconds, 5 * kOperation, 1e-9);
  EXPECT_NEAR(computed.backward_seconds, 7 * kOperation, 1e-9);
  ASSERT_EQ(computed.used_at.size(), 2U);
  EXPECT_NEAR(computed.used_at[0], 0, 1e-9);
  EXPECT_NEAR(computed.used_at[1], 2.0 / 5, 1e-9);
  EXPECT_NEAR(computed.gradient_at[1], 5.0 / 7, 1e-9);
  EXPECT_NEAR(computed.gradient_at[0], 1, 1e-9);
}

TEST_F(PassesOfADevice, LastAsLongAsBothTogether) {
  step();
  ASSERT_TRUE(times_->of_device());
  EXPECT_NEAR(times_->of_device()->forward_seconds, 9 * kOperation, 1e-9);
  EXPECT_NEAR(times_->of_device()->backward_seconds, 8 * kOperation, 1e-9);
  EXPECT_NEAR(times_->of_device()->waited_seconds, 5 * kOperation, 1e-9);
  EXPECT_NEAR(times_->forward_waits(), 4 * kOperation, 1e-9);
}

TEST_F(PassesOfADevice, AreTimelineSpansWithWaits) {
  step();
  timeline_.start();
  step();
  timeline_.stop();
  const auto forward = shown(Activity::kForward), backward = shown(Activity::kBackward), step = shown(Activity::kStep),
             waits = shown(Activity::kWaitGather);
  ASSERT_EQ(forward.size(), 1U);
  ASSERT_EQ(backward.size(), 1U);
  ASSERT_EQ(step.size(), 1U);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_NEAR(seconds(forward[0]), 9 * kOperation, 1e-9);
  EXPECT_NEAR(seconds(backward[0]), 8 * kOperation, 1e-9);
  EXPECT_NEAR(seconds(step[0]), 2 * kOperation, 1e-9);
  EXPECT_NEAR(waits[0].begin, forward[0].begin, 1e-9);
  EXPECT_NEAR(seconds(waits[0]), 4 * kOperation, 1e-9);
  EXPECT_NEAR(waits[1].begin, backward[0].begin + kOperation, 1e-9);
  EXPECT_EQ(waits[1].unit, 1);
  EXPECT_NEAR(backward[0].begin, forward[0].end, 1e-9);
  EXPECT_NEAR(step[0].begin, backward[0].end, 1e-9);
}

TEST(PassTimes, LateDeviceIsReadWhenDone) {
  RecordedDevice device({.late = 2});
  const Allocation operands = device.allocate(kBytes);
  const auto times = make_pass_times(device, 1, {}, nullptr);
  const auto step = [&] {
    times->comes({EventKind::kAccess, 0, {}});
    device.fill(Lane::kCompute, operands.bytes(), std::byte{1});
    times->comes({EventKind::kBackward, -1, {}});
    times->comes({EventKind::kEndBackward, -1, {}});
    times->comes({EventKind::kStep, -1, {}});
    times->step_ends();
  };
  step();
  EXPECT_EQ(times->computed().forward_seconds, 0) << "the device has not begun";
  join_all(device);
  step();
  EXPECT_NEAR(times->computed().forward_seconds, kOperation, 1e-9) << "the first step's profile";
  join_all(device);
}

TEST(PassTimes, HostTimesFollowItsClocks) {
  double computed = 0, exchanged = 0;
  const auto times =
      make_pass_times(HostDevice::instance(), 1,
                      {.computed = [&] { return computed; }, .exchanged = [&] { return exchanged; }}, nullptr);
  times->comes({EventKind::kAccess, 0, {}});
  computed = 2, exchanged = 1;
  times->comes({EventKind::kBackward, -1, {}});
  computed = 5, exchanged = 3;
  times->comes({EventKind::kGradient, 0, {}});
  times->comes({EventKind::kEndBackward, -1, {}});
  times->comes({EventKind::kStep, -1, {}});
  times->step_ends();
  EXPECT_EQ(times->computed().forward_seconds, 2);
  EXPECT_EQ(times->computed().backward_seconds, 3);
  EXPECT_EQ(times->forward_waits(), 1);
  EXPECT_FALSE(times->of_device());
}

struct Steps {
  double now = 100;
  PassClock clock{3, [this] { return now; }};

  void at(double seconds, EventKind kind, int unit = -1) {
    now = 100 + seconds;
    clock.note({kind, unit, {}});
  }
};

TEST(PassClock, TimesPassesAndUnitUses) {
  Steps steps;
  EXPECT_EQ(steps.clock.profile().backward_seconds, 0);
  EXPECT_TRUE(steps.clock.profile().used_at.empty()) << "no step has ended";
  steps.at(0, EventKind::kAccess, 0);
  steps.at(1, EventKind::kAccess, 1);
  steps.at(3, EventKind::kAccess, 0);  // repeated: only the first use counts
  steps.at(4, EventKind::kBackward);
  steps.at(4, EventKind::kAccess, 0);
  steps.at(8, EventKind::kGradient, 1);
  steps.at(9, EventKind::kAccess, 2);
  steps.at(12, EventKind::kGradient, 0);
  steps.at(40, EventKind::kEndBackward);  // the event is reported when the program continues
  steps.at(50, EventKind::kStep);
  const StepProfile profile = steps.clock.profile();
  EXPECT_EQ(profile.forward_seconds, 4);
  EXPECT_EQ(profile.backward_seconds, 8);
  EXPECT_EQ(profile.used_at, (std::vector{0.0, 0.25, 1.0})) << "an unused unit hides behind the whole pass";
  EXPECT_EQ(profile.gradient_at, (std::vector{1.0, 0.5, 0.0}));
}

// The last micro-batch decides when units are used.
TEST(PassClock, SumsMicroBatches) {
  Steps steps;
  steps.at(0, EventKind::kAccess, 0);
  steps.at(2, EventKind::kBackward);
  steps.at(3, EventKind::kGradient, 0);
  steps.at(5, EventKind::kEndBackward);
  steps.at(10, EventKind::kAccess, 1);
  steps.at(13, EventKind::kAccess, 0);
  steps.at(14, EventKind::kBackward);
  steps.at(15, EventKind::kGradient, 1);
  steps.at(16, EventKind::kGradient, 0);
  steps.at(16, EventKind::kEndBackward);
  steps.at(17, EventKind::kStep);
  EXPECT_EQ(steps.clock.profile().forward_seconds, 2 + 4);
  EXPECT_EQ(steps.clock.profile().backward_seconds, 1 + 2);
  EXPECT_EQ(steps.clock.profile().used_at, (std::vector{0.75, 0.0, 1.0}));
  EXPECT_EQ(steps.clock.profile().gradient_at, (std::vector{1.0, 0.5, 0.0}));
}

TEST(PassClock, EveryStepBeginsAnew) {
  Steps steps;
  for (int step = 0; step < 3; ++step) {
    steps.at(10 * step, EventKind::kAccess, 0);
    steps.at(10 * step + 2, EventKind::kBackward);
    steps.at(10 * step + 5, EventKind::kGradient, 0);
    steps.at(10 * step + 5, EventKind::kEndBackward);
    steps.at(10 * step + 6, EventKind::kStep);
    EXPECT_EQ(steps.clock.profile().forward_seconds, 2);
    EXPECT_EQ(steps.clock.profile().backward_seconds, 3);
  }
  steps.at(100, EventKind::kStep);  // no pass precedes it
  EXPECT_EQ(steps.clock.profile().forward_seconds, 0);
  EXPECT_TRUE(steps.clock.profile().gradient_at.empty());
}

}  // namespace
}  // namespace zero
