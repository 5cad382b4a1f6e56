#include "zero/plan/balance.h"

#include <array>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error.h"

namespace zero {
namespace {

using Shares = std::vector<std::int64_t>;

TEST(ShareSamples, AreInProportionToSpeed) {
  EXPECT_EQ(share_samples(std::array{30.0, 10.0}, 8), (Shares{6, 2}));
  EXPECT_EQ(share_samples(std::array{1.0, 1.0, 2.0}, 16), (Shares{4, 4, 8}));
}

TEST(ShareSamples, OfEqualRanksAreEqual) {
  EXPECT_EQ(share_samples(std::array{7.0, 7.0, 7.0}, 12), (Shares{4, 4, 4}));
}

TEST(ShareSamples, LeaveNoRankWithoutAny) {
  EXPECT_EQ(share_samples(std::array{1000.0, 1.0, 1000.0}, 7), (Shares{3, 1, 3}));
}

TEST(ShareSamples, StayBelowTheMost) {
  EXPECT_EQ(share_samples(std::array{1000.0, 1.0}, 8, 5), (Shares{5, 3}));
}

TEST(ShareSamples, RefuseWhatCannotBeShared) {
  EXPECT_THROW(share_samples(std::array{1.0, 1.0}, 1), InternalError);
  EXPECT_THROW(share_samples(std::array{1.0, 1.0}, 8, 3), InternalError);
  EXPECT_THROW(share_samples(std::array{1.0, 0.0}, 8), InternalError);
}

// Against every other way to share them.
RC_GTEST_PROP(ShareSamples, HaveTheEarliestEnd, ()) {
  const auto speeds = *rc::gen::container<std::vector<double>>(
      3, rc::gen::map(rc::gen::inRange(1, 100), [](int speed) { return speed / 7.0; }));
  const auto together = *rc::gen::inRange<std::int64_t>(3, 15);
  const auto most = *rc::gen::inRange<std::int64_t>((together + 2) / 3, together + 1);
  const Shares shares = share_samples(speeds, together, most);
  RC_ASSERT(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) == together);
  const double end = slowest_seconds(speeds, shares);
  for (std::int64_t first = 1; first <= most; ++first)
    for (std::int64_t second = 1; second <= most; ++second) {
      const std::int64_t third = together - first - second;
      if (third < 1 || third > most) continue;
      RC_ASSERT(slowest_seconds(speeds, Shares{first, second, third}) >= end);
    }
  for (const std::int64_t share : shares) RC_ASSERT(1 <= share && share <= most);
}

}  // namespace
}  // namespace zero
