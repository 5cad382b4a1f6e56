#include "app/train/watch/sample_shares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/placement/balance.h"

#include "tests/comm/transport/worlds.h"

namespace zero {
namespace {

using Shares = std::vector<std::int64_t>;

// The seconds that each rank needs for a sample, and those after `slower_at` steps if it is set.
struct Machines {
  std::array<double, 2> seconds_a_sample;
  std::array<double, 2> later{};
  int slower_at = 1000;
};

class MeasuredShares : public testing::Test {
 protected:
  // Rank 0's shares after each step. All ranks have the same shares.
  static std::vector<Shares> run(const Machines& machines, int steps, std::int64_t most = 0) {
    std::array<std::vector<Shares>, 2> seen;
    run_ranks(2, [&](World& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      SampleShares shares({.kind = ShareKind::kMeasured, .given = {}, .most = most}, 5, 2, world.rank());
      for (int step = 0; step < steps; ++step) {
        const auto& seconds = step < machines.slower_at ? machines.seconds_a_sample : machines.later;
        const Shares before = shares.samples();
        const bool changed = shares.learn(seconds[rank] * static_cast<double>(before[rank]), world.communicator());
        EXPECT_EQ(changed, shares.samples() != before);
        seen[rank].push_back(shares.samples());
      }
    });
    EXPECT_EQ(seen[0], seen[1]);
    return seen[0];
  }
  static constexpr int kLearned = 1 + static_cast<int>(SampleShares::kPeriod);  // steps until the first change
};

// Shares follow the speeds after a period of steps.
TEST_F(MeasuredShares, FollowSpeedAfterPeriod) {
  const auto shares = run({.seconds_a_sample = {0.01, 0.04}}, kLearned);
  EXPECT_EQ(shares[kLearned - 2], (Shares{5, 5}));
  EXPECT_EQ(shares[kLearned - 1], (Shares{8, 2}));
}

TEST_F(MeasuredShares, StayWhereLittleWouldBeGained) {
  EXPECT_EQ(run({.seconds_a_sample = {0.010, 0.011}}, 50).back(), (Shares{5, 5}));
  EXPECT_EQ(run({.seconds_a_sample = {0.01, 0.04}}, 50).back(), (Shares{8, 2})) << "stays after it was found";
}

TEST_F(MeasuredShares, FollowARankThatSlowsDown) {
  const auto shares =
      run({.seconds_a_sample = {0.01, 0.01}, .later = {0.01, 0.04}, .slower_at = 20}, 20 + 2 * kLearned);
  EXPECT_EQ(shares[19], (Shares{5, 5}));
  EXPECT_EQ(shares.back(), (Shares{8, 2}));
}

TEST_F(MeasuredShares, StayBelowTheMost) {
  EXPECT_EQ(run({.seconds_a_sample = {0.01, 0.09}}, kLearned, 7).back(), (Shares{7, 3}));
}

// Ranks in virtual time. The last rank computes k times slower, or is stopped for (k - 1)/k of each 40 ms. Every rank
// has fixed costs of a tenth of an equal share. Each step takes up to a sixteenth more or less.
struct Simulated {
  int world;
  double k;
  bool stopped = false;
  double seconds(int rank, std::int64_t samples, int step) const {
    const double noise = 1 + (((step * 7 + rank * 3) % 9) - 4) / 64.0;
    const double work = noise * RankPace{.sample = 0.006, .fixed = 1.6}.seconds(samples);
    if (rank < world - 1 || k == 1) return work;
    return stopped ? with_stops(work, (step * 13 % 40) / 1000.0) : k * work;
  }
  // The first period began `phase` seconds ago.
  double with_stops(double work, double phase) const {
    constexpr double kPeriod = 0.04;
    const double runs = kPeriod / k;
    if (phase >= runs) return kPeriod - phase + with_stops(work, 0);
    const double left = work - (runs - phase);
    return left <= 0 ? work : kPeriod - phase + std::floor(left / runs) * kPeriod + std::fmod(left, runs);
  }
  double slowest(const Shares& shares, int step) const {
    double slowest = 0;
    for (int rank = 0; rank < world; ++rank)
      slowest = std::max(slowest, seconds(rank, shares[static_cast<std::size_t>(rank)], step));
    return slowest;
  }
  double samples_per_second(double seconds) const;
  // The samples per second of the best constant shares.
  double best() const;
};

constexpr std::int64_t kBatch = 16;
constexpr int kSteps = 60;
constexpr int kLearning = 20;  // first steps, which are not measured

double Simulated::samples_per_second(double seconds) const {
  return static_cast<double>(kBatch * world * (kSteps - kLearning)) / seconds;
}

double Simulated::best() const {
  double best = 0;
  for (std::int64_t slow = 1; slow <= kBatch; ++slow) {
    std::vector<RankPace> even(static_cast<std::size_t>(world - 1), {.sample = 1});
    Shares shares = share_samples(even, kBatch * world - slow);
    shares.push_back(slow);
    double all = 0;
    for (int step = kLearning; step < kSteps; ++step) all += slowest(shares, step);
    best = std::max(best, samples_per_second(all));
  }
  return best;
}

class SlowedRank : public testing::TestWithParam<Simulated> {};

// After twenty steps, ranks reach nine tenths of the sum of their speeds.
TEST_P(SlowedRank, LeavesNineTenthsOfSpeed) {
  const Simulated& sim = GetParam();
  std::mutex mutex;
  double reached = 0;
  run_ranks(sim.world, [&](World& world) {
    SampleShares shares({.kind = ShareKind::kMeasured}, kBatch, sim.world, world.rank());
    double seconds = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (step >= kLearning) seconds += sim.slowest(shares.samples(), step);
      const std::int64_t own = shares.samples()[static_cast<std::size_t>(world.rank())];
      shares.learn(sim.seconds(world.rank(), own, step), world.communicator());
    }
    const std::scoped_lock lock(mutex);
    reached = sim.samples_per_second(seconds);
  });
  // The speed of all ranks if none waits for another, with the equal shares of k = 1.
  const double of_one = kBatch / RankPace{.sample = 0.006, .fixed = 1.6}.seconds(kBatch);
  const double sum = of_one * (sim.world - 1 + 1 / sim.k);
  EXPECT_GE(reached, 0.9 * sum) << "of the sum: " << reached / sum;
  EXPECT_GE(reached, 0.97 * sim.best()) << "of the best shares: " << reached / sim.best();
}

INSTANTIATE_TEST_SUITE_P(Ranks, SlowedRank,
                         testing::Values(Simulated{2, 2}, Simulated{2, 4}, Simulated{4, 2}, Simulated{4, 4},
                                         Simulated{2, 2, true}, Simulated{2, 4, true}, Simulated{4, 2, true},
                                         Simulated{4, 4, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.world) + "k" +
                                  std::to_string(static_cast<int>(info.param.k)) +
                                  (info.param.stopped ? "stopped" : "");
                         });

// Shares stay equal although steps vary.
TEST(SampleShares, EqualRanksStayEqual) {
  run_ranks(2, [](World& world) {
    const Simulated equal{2, 1};
    SampleShares shares({.kind = ShareKind::kMeasured}, 16, 2, world.rank());
    int changes = 0;
    for (int step = 0; step < 200; ++step)
      changes += shares.learn(equal.seconds(world.rank(), shares.samples()[0], step), world.communicator()) ? 1 : 0;
    EXPECT_EQ(changes, 0);
  });
}

TEST(SampleShares, OfEqualRanksWeighOne) {
  run_ranks(2, [](World& world) {
    SampleShares shares({}, 5, 2, world.rank());
    for (int step = 0; step < 20; ++step) EXPECT_FALSE(shares.learn(world.rank() + 1, world.communicator()));
    EXPECT_EQ(shares.weight(), 1);
    EXPECT_EQ(shares.grid().before, 5 * world.rank());
  });
}

TEST(SampleShares, WeightsSumToRankCount) {
  const ShareOptions given{.kind = ShareKind::kGiven, .given = {7, 2, 3}};
  double sum = 0;
  for (int rank = 0; rank < 3; ++rank) sum += SampleShares(given, 4, 3, rank).weight();
  EXPECT_DOUBLE_EQ(sum, 3);
  EXPECT_EQ(SampleShares(given, 4, 3, 2).grid().before, 9);
  EXPECT_EQ(SampleShares(given, 4, 3, 0).text(), "7 + 2 + 3");
}

}  // namespace
}  // namespace zero
