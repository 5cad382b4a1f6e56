#include "zero/plan/placement/balance.h"

#include <array>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using Shares = std::vector<std::int64_t>;

// Paces of ranks that compute `speeds` samples a second and have no fixed part.
std::vector<RankPace> paces(const std::vector<double>& speeds) {
  std::vector<RankPace> paces;
  for (const double speed : speeds) paces.push_back({.sample = 1 / speed});
  return paces;
}

TEST(ShareSamples, AreInProportionToSpeed) {
  EXPECT_EQ(share_samples(paces({30.0, 10.0}), 8), (Shares{6, 2}));
  EXPECT_EQ(share_samples(paces({1.0, 1.0, 2.0}), 16), (Shares{4, 4, 8}));
}

TEST(ShareSamples, OfEqualRanksAreEqual) {
  EXPECT_EQ(share_samples(paces({7.0, 7.0, 7.0}), 12), (Shares{4, 4, 4}));
}

TEST(ShareSamples, LeaveNoRankWithoutAny) {
  EXPECT_EQ(share_samples(paces({1000.0, 1.0, 1000.0}), 7), (Shares{3, 1, 3}));
}

TEST(ShareSamples, StayBelowTheMost) {
  EXPECT_EQ(share_samples(paces({1000.0, 1.0}), 8, 5), (Shares{5, 3}));
}

TEST(ShareSamples, RefuseWhatCannotBeShared) {
  EXPECT_THROW(share_samples(paces({1.0, 1.0}), 1), InternalError);
  EXPECT_THROW(share_samples(paces({1.0, 1.0}), 8, 3), InternalError);
}

TEST(ShareSamples, LargerFixedPartTakesFewer) {
  const std::array even{RankPace{.sample = 1, .fixed = 4}, RankPace{.sample = 1, .fixed = 4}};
  EXPECT_EQ(share_samples(even, 12), (Shares{6, 6}));
  const std::array uneven{RankPace{.sample = 1, .fixed = 0}, RankPace{.sample = 1, .fixed = 4}};
  EXPECT_EQ(share_samples(uneven, 12), (Shares{8, 4}));
  EXPECT_DOUBLE_EQ(slowest_seconds(uneven, Shares{8, 4}), 8);
}

TEST(ShareSamples, RefuseAPaceThatIsNone) {
  EXPECT_THROW(share_samples(std::array{RankPace{.sample = 0}}, 8), InternalError);
  EXPECT_THROW(share_samples(std::array{RankPace{.sample = 1, .fixed = -1}}, 8), InternalError);
}

// No other distribution of the samples ends earlier.
RC_GTEST_PROP(ShareSamples, HaveTheEarliestEnd, ()) {
  const auto ranks = *rc::gen::container<std::vector<RankPace>>(
      3, rc::gen::map(rc::gen::pair(rc::gen::inRange(1, 100), rc::gen::inRange(0, 20)), [](const auto& pace) {
        return RankPace{.sample = pace.first / 7.0, .fixed = pace.second / 3.0};
      }));
  const auto together = *rc::gen::inRange<std::int64_t>(3, 15);
  const auto most = *rc::gen::inRange<std::int64_t>((together + 2) / 3, together + 1);
  const Shares shares = share_samples(ranks, together, most);
  RC_ASSERT(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) == together);
  const double end = slowest_seconds(ranks, shares);
  for (std::int64_t first = 1; first <= most; ++first)
    for (std::int64_t second = 1; second <= most; ++second) {
      const std::int64_t third = together - first - second;
      if (third < 1 || third > most) continue;
      RC_ASSERT(slowest_seconds(ranks, Shares{first, second, third}) >= end);
    }
  for (const std::int64_t share : shares) RC_ASSERT(1 <= share && share <= most);
}

}  // namespace
}  // namespace zero
