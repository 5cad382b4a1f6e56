#include "zero/base/process/clock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(Clock, MonotonicTimeNeverGoesBack) {
  double before = monotonic_seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = monotonic_seconds();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, BootTimeAdvancesAsMonotonicTime) {
  const double monotonic = monotonic_seconds();
  EXPECT_GE(boot_seconds() + 1e-6, monotonic) << "boot time also counts suspended time";
}

TEST(Clock, OwnStartIsAfterTheParents) {
  constexpr double kTick = 0.01;
  EXPECT_GT(process_start_seconds(), 0);
  EXPECT_LE(process_start_seconds(), boot_seconds() + kTick);
  EXPECT_GE(process_start_seconds(), process_start_seconds(getppid()));
  EXPECT_EQ(process_start_seconds(), process_start_seconds(getpid()));
}

TEST(Clock, ChildHasItsStartTime) {
  constexpr double kTick = 0.01;
  const double before = boot_seconds();
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const double after = boot_seconds();
  const double start = process_start_seconds(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_GE(start, before - 2 * kTick);
  EXPECT_LE(start, after + 2 * kTick);
}

TEST(Clock, OddProcessNamesKeepFields) {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  const double start = process_start_seconds();
  prctl(PR_SET_NAME, "a) S 1 (b c) 9");
  EXPECT_EQ(process_start_seconds(), start);
  prctl(PR_SET_NAME, name);
}

TEST(Clock, MissingProcessIsAnIoError) {
  EXPECT_THROW(process_start_seconds(1 << 30), IoError);
}

}  // namespace
}  // namespace zero
