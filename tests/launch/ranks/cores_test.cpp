#include "app/launch/ranks/cores.h"

#include <algorithm>
#include <array>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sched.h>

namespace zero {
namespace {

TEST(Cores, AllowedAreWhatTheKernelSays) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(static_cast<int>(allowed_cores().size()), CPU_COUNT(&set));
}

TEST(Cores, ContiguousSharesLeaveTheRemainder) {
  const std::array cores{0, 1, 2, 3, 8};
  EXPECT_EQ(share_of_cores(cores, 0, 2), (std::vector{0, 1}));
  EXPECT_EQ(share_of_cores(cores, 1, 2), (std::vector{2, 3}));
}

TEST(Cores, MoreRanksThanCoresStayUnbound) {
  EXPECT_TRUE(share_of_cores(std::array{0, 1}, 0, 3).empty());
}

TEST(Cores, SharesAreEqualAndDisjoint) {
  rc::check([] {
    const auto count = *rc::gen::inRange(1, 200);
    const auto world = *rc::gen::inRange(1, 65);
    std::vector<int> cores(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) cores[static_cast<std::size_t>(i)] = 2 * i;
    std::set<int> seen;
    for (int rank = 0; rank < world; ++rank) {
      const auto share = share_of_cores(cores, rank, world);
      RC_ASSERT(static_cast<int>(share.size()) == count / world);
      for (const int core : share) RC_ASSERT(seen.insert(core).second);
    }
  });
}

}  // namespace
}  // namespace zero
