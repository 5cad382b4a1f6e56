#include "tests/support/device/access_map.h"

#include <array>
#include <memory>
#include <span>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::shared_ptr<const DeviceOperation> operation(std::uint64_t number, Lane lane, VectorClock after = {}) {
  auto one = std::make_shared<DeviceOperation>();
  one->number = number;
  one->actor = actor_of(lane);
  one->clock = after;
  one->clock.see(one->actor, number);
  return one;
}

struct Bytes {
  std::array<std::byte, 16> bytes{};
  std::span<const std::byte> part(std::size_t begin, std::size_t end) const {
    return std::span(bytes).subspan(begin, end - begin);
  }
};

TEST(AccessMap, FindsTheFirstSharedBytes) {
  const Bytes b;
  AccessMap map;
  map.record(operation(1, Lane::kUp), writes(b.part(4, 8)));
  const auto conflicts = map.conflicts(*operation(2, Lane::kDown), reads(b.part(6, 16)));
  ASSERT_EQ(conflicts.size(), 1U);
  EXPECT_EQ(conflicts[0].earlier->number, 1U);
  EXPECT_TRUE(conflicts[0].earlier_writes);
  EXPECT_EQ(conflicts[0].bytes.data(), b.bytes.data() + 6);
  EXPECT_EQ(conflicts[0].bytes.size(), 2U);
}

TEST(AccessMap, AdjacentBytesAreNotShared) {
  const Bytes b;
  AccessMap map;
  map.record(operation(1, Lane::kUp), writes(b.part(4, 8)));
  const auto next = operation(2, Lane::kDown);
  EXPECT_TRUE(map.conflicts(*next, writes(b.part(0, 4))).empty());
  EXPECT_TRUE(map.conflicts(*next, writes(b.part(8, 16))).empty());
}

// A read of some bytes keeps the last write of all other bytes.
TEST(AccessMap, PartialReadKeepsOtherWrites) {
  const Bytes b;
  AccessMap map;
  map.record(operation(1, Lane::kUp), writes(b.part(0, 16)));
  map.record(operation(2, Lane::kUp), reads(b.part(4, 8)));
  const auto next = operation(3, Lane::kDown);
  EXPECT_EQ(map.conflicts(*next, writes(b.part(0, 4))).size(), 1U);
  EXPECT_EQ(map.conflicts(*next, writes(b.part(4, 8))).size(), 2U);
  EXPECT_EQ(map.conflicts(*next, reads(b.part(4, 8))).size(), 1U);
  EXPECT_EQ(map.conflicts(*next, writes(b.part(0, 16))).size(), 2U);  // each operation once
}

TEST(AccessMap, WriteCoversEverythingItFollows) {
  const Bytes b;
  AccessMap map;
  const auto first = operation(1, Lane::kUp), second = operation(2, Lane::kUpdate, first->clock);
  map.record(first, writes(b.part(0, 16)));
  map.record(second, writes(b.part(0, 16)));
  const auto conflicts = map.conflicts(*operation(3, Lane::kDown), reads(b.part(0, 1)));
  ASSERT_EQ(conflicts.size(), 1U);
  EXPECT_EQ(conflicts[0].earlier->number, 2U);
  EXPECT_TRUE(map.conflicts(*operation(3, Lane::kDown, second->clock), reads(b.part(0, 1))).empty());
}

TEST(AccessMap, ForgetsAPartAlone) {
  const Bytes b;
  AccessMap map;
  map.record(operation(1, Lane::kUp), writes(b.part(0, 16)));
  map.forget(b.part(4, 8));
  const auto next = operation(2, Lane::kDown);
  EXPECT_TRUE(map.conflicts(*next, writes(b.part(4, 8))).empty());
  EXPECT_EQ(map.conflicts(*next, writes(b.part(0, 5))).size(), 1U);
  EXPECT_EQ(map.conflicts(*next, writes(b.part(7, 9))).size(), 1U);
}

}  // namespace
}  // namespace zero
