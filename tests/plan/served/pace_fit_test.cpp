#include "zero/plan/served/pace_fit.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// All measurements have the same number of samples.
TEST(PaceFit, OneCountHasNoFixedPart) {
  PaceFit fit;
  EXPECT_DOUBLE_EQ(fit.learn(16, 0.32).sample, 0.02);
  EXPECT_EQ(fit.learn(16, 0.16).fixed, 0);
}

// The measurements have two different numbers of samples.
TEST(PaceFit, TwoCountsRevealFixedPart) {
  PaceFit fit;
  fit.learn(16, 0.36);
  const RankPace pace = fit.learn(8, 0.20);
  EXPECT_NEAR(pace.sample, 0.02, 1e-12);
  EXPECT_NEAR(pace.fixed, 2, 1e-9);
  EXPECT_NEAR(pace.seconds(24), 0.52, 1e-9);
}

TEST(PaceFit, SlowingRankKeepsItsFixedPart) {
  PaceFit fit;
  fit.learn(16, 0.36);
  fit.learn(8, 0.20);
  const RankPace slower = fit.learn(8, 0.80);
  EXPECT_NEAR(slower.fixed, 2, 1e-9);
  EXPECT_NEAR(slower.seconds(4), 0.48, 1e-9);
}

TEST(PaceFit, CloseCountsTeachNoFixedPart) {
  PaceFit fit;
  fit.learn(16, 0.36);
  fit.learn(8, 0.20);
  EXPECT_NEAR(fit.learn(9, 0.23).fixed, 2, 1e-9) << "the difference may be noise";
}

// A batch of more samples took less time.
TEST(PaceFit, FasterBatchesHaveNoFixedPart) {
  PaceFit fit;
  fit.learn(8, 0.8);
  EXPECT_EQ(fit.learn(16, 0.2).fixed, 0);
}

TEST(PaceFit, RefusesAMeasurementOfNothing) {
  EXPECT_THROW(PaceFit().learn(0, 1), InternalError);
  EXPECT_GT(PaceFit().learn(1, 0).sample, 0) << "a clock that did not advance";
}

// In a run of two ranks, one changes its pace, after any earlier shares and measurements. The shares then converge
// until both ranks end together, within two samples or a fourth. Shares are whole numbers, and so are the counts that
// the fit learns from.
RC_GTEST_PROP(PaceFit, LeadsToSharesThatEndTogether, ()) {
  const auto pace = [] {
    return RankPace{.sample = *rc::gen::inRange(1, 100) / 100.0, .fixed = *rc::gen::inRange(0, 16) / 1.0};
  };
  const std::int64_t together = 64;
  std::array ranks{pace(), pace()};
  std::array<PaceFit, 2> fits;
  std::vector<std::int64_t> shares{32, 32};
  const auto change = [&] {
    std::vector<RankPace> found;
    for (std::size_t rank = 0; rank < 2; ++rank)
      found.push_back(fits[rank].learn(shares[rank], ranks[rank].seconds(shares[rank])));
    shares = share_samples(found, together);
  };
  for (int i = 0; i < *rc::gen::inRange(0, 4); ++i) change();
  ranks[1] = pace();
  for (int i = 0; i < 12; ++i) change();
  const double best = slowest_seconds(ranks, share_samples(ranks, together));
  const double sample = std::max(ranks[0].sample, ranks[1].sample);
  RC_ASSERT(slowest_seconds(ranks, shares) <= std::max(best + 2 * sample, 1.25 * best) * 1.001);
}

}  // namespace
}  // namespace zero
