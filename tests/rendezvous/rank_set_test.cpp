#include "zero/rendezvous/rank_set.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(RankSet, HasItsMembersInRisingOrder) {
  EXPECT_EQ(members_of(set_of({63, 0, 5, 5})), (std::vector<int>{0, 5, 63}));
  EXPECT_EQ(members_of(first_ranks(3) & ~only(1)), (std::vector<int>{0, 2}));
  EXPECT_EQ(set_of({}), RankSet{0});
  EXPECT_EQ(members_of(0), std::vector<int>{});
}

TEST(RankSet, IsPrintedAsOneRankOrAsSeveral) {
  EXPECT_EQ(format_ranks(only(3)), "rank 3");
  EXPECT_EQ(format_ranks(set_of({1, 2, 3})), "ranks 1, 2, 3");
}

}  // namespace
}  // namespace zero
