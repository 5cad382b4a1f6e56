#include "zero/train/sample_shares.h"

#include <array>
#include <mutex>

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/transport/worlds.h"

namespace zero {
namespace {

using Shares = std::vector<std::int64_t>;

// Steps of ranks that need so many seconds for a sample, as they are after `slower_at` steps where that is given.
struct Machines {
  std::array<double, 2> seconds_a_sample;
  std::array<double, 2> later{};
  int slower_at = 1000;
};

class MeasuredShares : public testing::Test {
 protected:
  // The shares after each step of rank 0; every rank has the same.
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
  static constexpr int kLearned = 1 + static_cast<int>(SampleShares::kWindow);  // steps until the first change
};

TEST_F(MeasuredShares, AreInProportionToSpeedAfterAWindowOfSteps) {
  const auto shares = run({.seconds_a_sample = {0.01, 0.04}}, kLearned);
  EXPECT_EQ(shares[kLearned - 2], (Shares{5, 5}));
  EXPECT_EQ(shares[kLearned - 1], (Shares{8, 2}));
}

TEST_F(MeasuredShares, StayWhereLittleWouldBeGained) {
  EXPECT_EQ(run({.seconds_a_sample = {0.010, 0.011}}, 50).back(), (Shares{5, 5}));
  EXPECT_EQ(run({.seconds_a_sample = {0.01, 0.04}}, 50).back(), (Shares{8, 2})) << "and once found, too";
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

TEST(SampleShares, OfEqualRanksWeighOne) {
  run_ranks(2, [](World& world) {
    SampleShares shares({}, 5, 2, world.rank());
    for (int step = 0; step < 20; ++step) EXPECT_FALSE(shares.learn(world.rank() + 1, world.communicator()));
    EXPECT_EQ(shares.weight(), 1);
    EXPECT_EQ(shares.grid().before, 5 * world.rank());
  });
}

TEST(SampleShares, WeightsOfAllRanksSumToTheirNumber) {
  const ShareOptions given{.kind = ShareKind::kGiven, .given = {7, 2, 3}};
  double sum = 0;
  for (int rank = 0; rank < 3; ++rank) sum += SampleShares(given, 4, 3, rank).weight();
  EXPECT_DOUBLE_EQ(sum, 3);
  EXPECT_EQ(SampleShares(given, 4, 3, 2).grid().before, 9);
  EXPECT_EQ(SampleShares(given, 4, 3, 0).text(), "7 + 2 + 3");
}

}  // namespace
}  // namespace zero
