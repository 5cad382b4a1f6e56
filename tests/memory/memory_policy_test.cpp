#include "zero/memory/memory_policy.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kReserve = 100 * kMiB;

// A release begins only if less than the reserve is free.
TEST(MemoryPolicy, RestoresTwiceTheReserve) {
  MemoryPolicy policy(kReserve, 1);
  EXPECT_EQ(policy.judge({.free_bytes = kReserve}, 0), 0);
  EXPECT_EQ(policy.judge({.free_bytes = 40 * kMiB}, 0), 160 * kMiB);
  EXPECT_EQ(policy.judge({.free_bytes = 0}, 0), 2 * kReserve);
}

TEST(MemoryPolicy, MachinesRanksShareTheRelease) {
  MemoryPolicy policy(kReserve, 4);
  EXPECT_EQ(policy.judge({.free_bytes = 40 * kMiB}, 0), 40 * kMiB);
}

TEST(MemoryPolicy, WaitingMeansShortage) {
  MemoryPolicy policy(kReserve, 1);
  EXPECT_GT(policy.judge({.free_bytes = 50 * kReserve, .pressure = MemoryPolicy::kStalled}, 0), kReserve);
  EXPECT_EQ(policy.judge({.free_bytes = 50 * kReserve, .pressure = MemoryPolicy::kStalled / 2}, 0), 0);
}

// One answer in the time over which the pressure is averaged.
TEST(MemoryPolicy, AnswersOneStallOnce) {
  MemoryPolicy policy(kReserve, 1);
  const MemoryReading stalled{.free_bytes = 50 * kReserve, .pressure = 20};
  EXPECT_GT(policy.judge(stalled, 100), 0);
  for (const double now : {100.1, 105.0, 109.9}) EXPECT_EQ(policy.judge(stalled, now), 0) << now;
  EXPECT_GT(policy.judge(stalled, 110.1), 0);
  EXPECT_GT(policy.judge({.free_bytes = 0, .pressure = 20}, 110.2), 0) << "a shortage is always answered";
}

TEST(MemoryPolicy, TakesAgainOnlyAfterCalmSteps) {
  MemoryPolicy policy(kReserve, 2);
  const MemoryReading calm{.free_bytes = 5 * kReserve};
  for (int round = 0; round < 2; ++round) {
    for (int step = 1; step < MemoryPolicy::kCalmSteps; ++step) EXPECT_EQ(policy.judge(calm, 0), 0);
    for (int step = 0; step < 3; ++step)
      EXPECT_EQ(policy.judge(calm, 0), -kReserve / 2) << "half of the excess over three reserves, by two ranks";
    policy.changed();
  }
}

TEST(MemoryPolicy, UncalmStepResetsCount) {
  for (const MemoryReading disturbance : {MemoryReading{.free_bytes = 3 * kReserve}, MemoryReading{.free_bytes = 0},
                                          MemoryReading{.free_bytes = 9 * kReserve, .pressure = 5}}) {
    MemoryPolicy policy(kReserve, 1);
    const MemoryReading calm{.free_bytes = 5 * kReserve};
    for (int step = 1; step < MemoryPolicy::kCalmSteps; ++step) policy.judge(calm, 0);
    policy.judge(disturbance, 0);
    EXPECT_EQ(policy.judge(calm, 0), 0);
  }
}

TEST(MemoryPolicy, ReleaseAndTakeDoNotOscillate) {
  // No other program changes the machine's memory. The test begins with any number of free bytes.
  for (std::int64_t free_bytes = 0; free_bytes < 30 * kReserve; free_bytes += 37 * kMiB) {
    MemoryPolicy policy(kReserve, 1);
    std::int64_t now = free_bytes;
    int num_changes = 0, num_turns = 0;
    std::int64_t last = 0;
    for (int step = 0; step < 400; ++step) {
      const std::int64_t change = policy.judge({.free_bytes = now}, 0);
      if (change == 0) continue;
      now += change;
      policy.changed();
      ++num_changes;
      if ((change > 0) != (last > 0) && last != 0) ++num_turns;
      last = change;
    }
    EXPECT_LE(num_changes, 12) << free_bytes;
    EXPECT_EQ(num_turns, 0) << free_bytes;
  }
}

TEST(MemoryPolicy, ReserveIsBoundedPartOfMachine) {
  EXPECT_EQ(default_reserve(kMiB), 64 * kMiB);
  EXPECT_EQ(default_reserve(3200 * kMiB), 200 * kMiB);
  EXPECT_EQ(default_reserve(std::int64_t{1} << 40), 1024 * kMiB);
}

}  // namespace
}  // namespace zero
