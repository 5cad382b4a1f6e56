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

TEST(BudgetBytes, EachTierHasItsOption) {
  AttachOptions options{.device_memory = {MemoryBudget::Kind::kBytes, 3},
                        .offload = {.host_memory = {MemoryBudget::Kind::kBytes, 2}, .disk_memory = 1}};
  const PerTier<std::int64_t> given{.device = 3, .host = 2, .disk = 1};
  for (const Tier tier : kAllTiers) {
    std::int64_t* const bytes = budget_bytes(options, tier);
    ASSERT_NE(bytes, nullptr) << name_of(tier);
    EXPECT_EQ(*bytes, given[tier]) << name_of(tier);
    *bytes += 10;
  }
  EXPECT_EQ(options.device_memory.bytes, 13);
  EXPECT_EQ(options.offload.host_memory.bytes, 12);
  EXPECT_EQ(options.offload.disk_memory, 11);
}

TEST(BudgetBytes, NullWithoutBytes) {
  for (const MemoryBudget::Kind kind : {MemoryBudget::Kind::kAuto, MemoryBudget::Kind::kMin}) {
    const AttachOptions options{.device_memory = {kind}, .offload = {.host_memory = {kind}}};
    for (const Tier tier : kAllTiers) EXPECT_EQ(budget_bytes(options, tier), nullptr) << name_of(tier);
  }
}

}  // namespace
}  // namespace zero
