#include "app/launch/restart_policy.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

using Kind = NextAttempt::Kind;

TEST(RestartPolicy, FirstFailureEndsWithoutRestarts) {
  RestartPolicy policy(0, 0);
  EXPECT_EQ(policy.after({.local_rank = 1}, 2).kind, Kind::kEnd);
}

TEST(RestartPolicy, StartsAgainSoOftenAsAllowed) {
  RestartPolicy policy(3, 0);
  for (int step = 1; step <= 3; ++step) {
    EXPECT_EQ(policy.after({.local_rank = 1, .step = step}, 2).kind, Kind::kStartAgain);
    EXPECT_EQ(policy.restarts(), step);
  }
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 4}, 2).kind, Kind::kEnd);
  EXPECT_EQ(policy.restarts(), 3);
}

TEST(RestartPolicy, BadConfigurationEndsAtOnce) {
  RestartPolicy policy(3, 1);
  EXPECT_EQ(policy.after({.local_rank = 1, .status = 2}, 2).kind, Kind::kEnd);
}

// The rank has failed twice at the same point.
TEST(RestartPolicy, SecondFailureDropsPlace) {
  RestartPolicy policy(9, 2);
  EXPECT_EQ(policy.after({.local_rank = 2, .step = 40}, 4).kind, Kind::kStartAgain);
  const NextAttempt next = policy.after({.local_rank = 2, .step = 40}, 4);
  EXPECT_EQ(next.kind, Kind::kFewer);
  EXPECT_EQ(next.most_ranks, 3);
  EXPECT_EQ(next.reason, "rank 2 failed twice after step 40");
  EXPECT_EQ(policy.restarts(), 2) << "every attempt counts as a restart";
}

TEST(RestartPolicy, ProgressOrOtherPlaceResetsCount) {
  RestartPolicy policy(9, 1);
  EXPECT_EQ(policy.after({.local_rank = 2, .step = 40}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 2, .step = 50}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 50}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 60}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 2, .step = 60}, 4).kind, Kind::kStartAgain);
}

TEST(RestartPolicy, UnknownProgressCountsAsNone) {
  RestartPolicy policy(9, 1);
  EXPECT_EQ(policy.after({.local_rank = 2}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 2}, 4).reason, "rank 2 failed twice in a row");
  RestartPolicy never_fewer(9, 0);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(never_fewer.after({.local_rank = 2}, 4).kind, Kind::kStartAgain);
}

TEST(RestartPolicy, NobodyKnownIsNoPlace) {
  RestartPolicy policy(9, 1);
  EXPECT_EQ(policy.after({.step = 7}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.step = 7}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.step = 7}, 4).kind, Kind::kEnd);
}

TEST(RestartPolicy, ThirdFailureEndsIfNothingDroppable) {
  for (const int min_ranks : {0, 4}) {  // 0: never fewer; 4: as many as there are
    RestartPolicy policy(9, min_ranks);
    EXPECT_EQ(policy.after({.local_rank = 2, .step = 0}, 4).kind, Kind::kStartAgain);
    EXPECT_EQ(policy.after({.local_rank = 2, .step = 0}, 4).kind, Kind::kStartAgain);
    const NextAttempt next = policy.after({.local_rank = 2, .step = 0}, 4);
    EXPECT_EQ(next.kind, Kind::kEnd);
    EXPECT_EQ(next.reason, "3 failures in a row with nothing to go on from");
  }
}

TEST(RestartPolicy, FailuresOfDifferentPlacesBlameProgram) {
  RestartPolicy policy(9, 1);
  EXPECT_EQ(policy.after({.local_rank = 0, .step = 5}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 5}, 4).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 2, .step = 5}, 4).reason, "3 failures in a row after step 5");
}

// The number of ranks shrinks to the minimum.
TEST(RestartPolicy, SmallerWorldCountsAnew) {
  RestartPolicy policy(99, 2);
  for (int ranks = 4; ranks > 2; --ranks) {
    EXPECT_EQ(policy.after({.local_rank = 1, .step = 5}, ranks).kind, Kind::kStartAgain) << ranks;
    const NextAttempt next = policy.after({.local_rank = 1, .step = 5}, ranks);
    EXPECT_EQ(next.kind, Kind::kFewer);
    EXPECT_EQ(next.most_ranks, ranks - 1);
  }
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 5}, 2).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 5}, 2).kind, Kind::kStartAgain);
  EXPECT_EQ(policy.after({.local_rank = 1, .step = 5}, 2).reason, "3 failures in a row after step 5");
}

// The ranks after it are also dropped.
TEST(RestartPolicy, UnstartableRankIsDroppedAtOnce) {
  RestartPolicy policy(9, 2);
  const NextAttempt next = policy.after({.local_rank = 5, .not_started = true, .status = 4}, 8);
  EXPECT_EQ(next.kind, Kind::kFewer);
  EXPECT_EQ(next.most_ranks, 5);
  EXPECT_EQ(next.reason, "rank 5 could not be started");
  EXPECT_EQ(policy.after({.local_rank = 1, .not_started = true, .status = 4}, 5).kind, Kind::kEnd) << "one is too few";
  RestartPolicy never_fewer(9, 0);
  EXPECT_EQ(never_fewer.after({.local_rank = 5, .not_started = true, .status = 4}, 8).kind, Kind::kEnd);
}

}  // namespace
}  // namespace zero
