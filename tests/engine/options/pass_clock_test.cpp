#include "zero/engine/options/pass_clock.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

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
