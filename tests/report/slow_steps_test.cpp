#include "app/report/slow_steps.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

// Steps far above their prediction give one warning. A single slow step gives none.
TEST(SlowSteps, WarnOnceIfRepeated) {
  SlowSteps slow;
  EXPECT_FALSE(slow.count(100)) << "nothing is predicted yet";
  slow.expect(0.04);
  for (int step = 0; step < 100; ++step) EXPECT_FALSE(slow.count(step % 2 == 0 ? 0.9 : 0.04)) << step;
  for (int step = 1; step < SlowSteps::kInARow; ++step) EXPECT_FALSE(slow.count(0.5));
  EXPECT_TRUE(slow.count(0.5));
  EXPECT_TRUE(says(slow.note(70, {.running = 5.2, .cores = 2}, 2),
                   "the 8 steps up to step 70 took 500 ms each instead of the predicted 40 ms: 5.2 processes want to "
                   "run on 2 cores"));
  EXPECT_TRUE(says(slow.note(70, {.running = 5.2, .cores = 2}, 2), "--run.threads 1"));
  EXPECT_FALSE(says(slow.note(70, {.running = 5.2, .cores = 2}, 1), "--run.threads 1"));
  EXPECT_TRUE(says(slow.note(70, {.running = 1, .cores = 2}, 2), "--run.timeline"));
  for (int step = 0; step < 20; ++step) EXPECT_FALSE(slow.count(0.5));
}

}  // namespace
}  // namespace zero
