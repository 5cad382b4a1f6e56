#include "zero/engine/options/options.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(OffloadOptions, NoLowerRoomByDefault) {
  EXPECT_TRUE(OffloadOptions{}.has_room_on(Tier::kDevice));
  EXPECT_FALSE(OffloadOptions{}.has_lower_room());
}

TEST(OffloadOptions, BudgetGivesRoomOnHost) {
  const OffloadOptions options{.host_memory = {MemoryBudget::Kind::kBytes, 1 << 20}};
  EXPECT_TRUE(options.has_room_on(Tier::kHost));
  EXPECT_FALSE(options.has_room_on(Tier::kDisk));
  EXPECT_TRUE(options.has_lower_room());
  EXPECT_FALSE(OffloadOptions{.host_memory = {MemoryBudget::Kind::kMin}}.has_lower_room()) << "min: only for tiles";
}

TEST(OffloadOptions, FolderGivesRoomOnDisk) {
  const OffloadOptions options{.disk = {"/nvme0"}};
  EXPECT_TRUE(options.has_room_on(Tier::kDisk));
  EXPECT_FALSE(options.has_room_on(Tier::kHost));
  EXPECT_TRUE(options.has_lower_room());
}

}  // namespace
}  // namespace zero
