#include "zero/plan/units/partition.h"

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace zero {
namespace {

Unit unit_of(std::int64_t numel, DType dtype = DType::kFloat32) {
  return {.index = 0, .name = "u", .dtype = dtype, .trainable = true, .slices = {{0, 0, numel}}, .numel = numel};
}

constexpr int kWorlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 1000};
constexpr std::int64_t kSizes[] = {0, 1, 15, 16, 17, 97, 1009, 65537, 1000003};

TEST(Partition, ShardsTileThePaddedRange) {
  for (const int world : kWorlds) {
    for (const std::int64_t numel : kSizes) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const Unit unit = unit_of(numel, dtype);
        std::int64_t end = 0;
        for (int rank = 0; rank < world; ++rank) {
          const Shard shard = shard_of(unit, rank, world);
          ASSERT_EQ(shard.offset, end) << numel << " over " << world;
          ASSERT_EQ(shard.numel, shard_of(unit, 0, world).numel);
          ASSERT_EQ(shard.offset * static_cast<std::int64_t>(size_of(dtype)) % 64, 0);
          end += shard.numel;
        }
        ASSERT_EQ(end, padded_numel(unit, world));
        ASSERT_GE(end, numel);
      }
    }
  }
}

TEST(Partition, PaddingStaysBelowAlignmentPerRank) {
  for (const int world : kWorlds) {
    for (const std::int64_t numel : kSizes) {
      EXPECT_LT(padding_numel(unit_of(numel), world), world * 16 + world) << numel << " over " << world;
      EXPECT_EQ(padding_numel(unit_of(numel), world), padded_numel(unit_of(numel), world) - numel);
    }
  }
}

TEST(Partition, LastRankHoldsThePadding) {
  const Unit unit = unit_of(100);  // 4 shards of 32: 100 parameters and 28 of padding
  EXPECT_EQ(padding_numel(unit, 4), 28);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(overlap(unit.slices[0], shard_of(unit, rank, 4)).numel, 32);
  EXPECT_EQ(overlap(unit.slices[0], shard_of(unit, 3, 4)).numel, 4);
}

TEST(Partition, TinyUnitLeavesRanksEmpty) {
  const Unit unit = unit_of(20);
  EXPECT_EQ(padded_numel(unit, 9), 144);
  EXPECT_EQ(overlap(unit.slices[0], shard_of(unit, 0, 9)).numel, 16);
  EXPECT_EQ(overlap(unit.slices[0], shard_of(unit, 1, 9)).numel, 4);
  for (int rank = 2; rank < 9; ++rank) EXPECT_EQ(overlap(unit.slices[0], shard_of(unit, rank, 9)).numel, 0);
}

TEST(Partition, GapsCountAsPadding) {
  Unit unit = unit_of(3);
  unit.slices.push_back({1, 16, 5});
  unit.numel = 21;
  EXPECT_EQ(padding_numel(unit, 1), 32 - 8);
}

TEST(Partition, AnEmptyUnitTakesNothing) {
  EXPECT_EQ(padded_numel(unit_of(0), 64), 0);
  EXPECT_EQ(shard_of(unit_of(0), 63, 64), (Shard{0, 0}));
}

TEST(Partition, RangeOutsideSliceOverlapsNothing) {
  const Slice slice{0, 16, 8};
  EXPECT_EQ(overlap(slice, {0, 16}).numel, 0);
  EXPECT_EQ(overlap(slice, {24, 16}).numel, 0);
  EXPECT_EQ(overlap(slice, {20, 0}).numel, 0);
  const SlicePart part = overlap(slice, {20, 100});
  EXPECT_EQ(part.offset, 20);
  EXPECT_EQ(part.numel, 4);
}

RC_GTEST_PROP(Partition, EveryElementHasOneRank, ()) {
  const int world = *rc::gen::inRange(1, 40);
  Unit unit = unit_of(0, *rc::gen::element(DType::kFloat32, DType::kBFloat16));
  unit.grain = *rc::gen::element(1, 256);
  unit.slices.clear();
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 300));
  for (const std::int64_t numel : sizes) {
    const std::int64_t align = alignment_numel(unit);
    const std::int64_t offset = (unit.numel + align - 1) / align * align;
    unit.slices.push_back({static_cast<int>(unit.slices.size()), offset, numel});
    unit.numel = offset + numel;
  }
  for (const Slice& slice : unit.slices) {
    std::int64_t covered = slice.offset;
    for (int rank = 0; rank < world; ++rank) {
      const SlicePart part = overlap(slice, shard_of(unit, rank, world));
      if (part.numel == 0) continue;
      RC_ASSERT(part.offset == covered);
      RC_ASSERT(part.offset % alignment_numel(unit) == 0);
      covered += part.numel;
    }
    RC_ASSERT(covered == slice.offset + slice.numel);
  }
}

}  // namespace
}  // namespace zero
