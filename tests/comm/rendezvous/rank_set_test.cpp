#include "zero/comm/rendezvous/rank_set.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(RankSet, HasItsMembersInRisingOrder) {
  EXPECT_EQ(members_of(set_of({63, 0, 5, 5})), (std::vector<int>{0, 5, 63}));
  EXPECT_EQ(members_of(first_ranks(3) & ~only(1)), (std::vector<int>{0, 2}));
  EXPECT_EQ(set_of({}), RankSet{0});
  EXPECT_EQ(members_of(0), std::vector<int>{});
}

TEST(RankSet, IsFormattedForPeople) {
  EXPECT_EQ(format_ranks(only(3)), "rank 3");
  EXPECT_EQ(format_ranks(only(1) | only(3) | only(63)), "ranks 1, 3, 63");
}

TEST(RankSet, FirstRanksAreLimitedToAll) {
  EXPECT_EQ(first_ranks(3), 7u);
  EXPECT_EQ(first_ranks(64), ~RankSet{0});
}

}  // namespace
}  // namespace zero
