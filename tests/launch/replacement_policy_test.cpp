#include "app/launch/replacement_policy.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReplacementPolicy, LongLivedRankRestartsAtOnce) {
  ReplacementPolicy policy(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(policy.after(2, seconds(90)), milliseconds(0));
}

TEST(ReplacementPolicy, RepeatedStartFailuresWaitLonger) {
  ReplacementPolicy policy(9);
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 8; ++i) pauses.push_back(policy.after(2, seconds(1))->count());
  EXPECT_EQ(pauses, (std::vector<std::int64_t>{0, 1000, 2000, 4000, 8000, 16000, 30000, 30000}));
  EXPECT_EQ(policy.after(2, seconds(90)), milliseconds(0)) << "the rank ran long enough before";
}

TEST(ReplacementPolicy, EachRankHasItsOwnPauses) {
  ReplacementPolicy policy(9);
  EXPECT_EQ(policy.after(1, seconds(1)), milliseconds(0));
  EXPECT_EQ(policy.after(2, seconds(1)), milliseconds(0));
  EXPECT_EQ(policy.after(1, seconds(1)), milliseconds(1000));
}

TEST(ReplacementPolicy, AllRanksShareReplacementLimit) {
  ReplacementPolicy policy(2);
  EXPECT_TRUE(policy.after(1, seconds(90)));
  EXPECT_EQ(policy.left(), 1);
  EXPECT_TRUE(policy.after(2, seconds(90)));
  EXPECT_EQ(policy.left(), 0);
  EXPECT_FALSE(policy.after(1, seconds(90)));
  EXPECT_EQ(policy.used(), 2) << "a refusal uses no replacement";
  EXPECT_EQ(policy.of(1), 1);
  EXPECT_EQ(policy.of(2), 1);
  EXPECT_EQ(policy.of(3), 0);
}

TEST(ReplacementPolicy, WithoutReplacementsNothingIsStarted) {
  EXPECT_FALSE(ReplacementPolicy(0).after(1, seconds(90)));
}

}  // namespace
}  // namespace zero
