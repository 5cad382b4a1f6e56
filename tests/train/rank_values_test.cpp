#include "zero/train/rank_values.h"

#include <array>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/train/worlds.h"

namespace zero {
namespace {

TEST(RankValues, EveryRankSeesAllInRankOrder) {
  run_ranks(3, [](World& world) {
    const std::array<double, 2> mine{1.0 * world.rank(), 10.0 * world.rank()};
    const auto all = gather_ranks<double>(world.communicator(), mine);
    EXPECT_EQ(all, (std::vector<std::vector<double>>{{0, 0}, {1, 10}, {2, 20}}));
  });
}

TEST(RankValues, AreBookkeepingAndNotTraining) {
  run_ranks(2, [](World& world) {
    const std::array<double, 4> mine{};
    gather_ranks<double>(world.communicator(), mine);
    EXPECT_EQ(world.communicator().traffic().sent_bytes, 0);
    EXPECT_EQ(world.communicator().traffic().control_sent_bytes, 32);
  });
}

}  // namespace
}  // namespace zero
