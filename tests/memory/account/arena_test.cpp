#include "zero/memory/account/arena.h"

#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Arena, BlocksAreWritableAndAligned) {
  Arena arena(64 * kMiB);
  for (const std::size_t bytes : {std::size_t{1}, Arena::kGranule, 3 * kMiB + 5}) {
    std::byte* block = arena.allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
    EXPECT_TRUE(arena.holds(block));
    EXPECT_TRUE(arena.holds(block + bytes - 1));
    std::memset(block, 1, bytes);
  }
}

TEST(Arena, UsesLowestFittingHole) {
  Arena arena(64 * kMiB);
  std::byte* small = arena.allocate(1 * kMiB);
  std::byte* wall = arena.allocate(1 * kMiB);
  std::byte* large = arena.allocate(4 * kMiB);
  arena.allocate(1 * kMiB);
  arena.release(small);
  arena.release(large);
  EXPECT_EQ(arena.allocate(3 * kMiB), large);
  EXPECT_EQ(arena.allocate(1 * kMiB), small);
  EXPECT_EQ(small + kMiB, wall);
}

TEST(Arena, NeighbouringHolesAreOne) {
  Arena arena(64 * kMiB);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(arena.allocate(2 * kMiB));
  arena.allocate(1 * kMiB);
  for (const int i : {1, 3, 2, 0}) arena.release(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(arena.allocate(8 * kMiB), blocks[0]);
}

TEST(Arena, RepeatedStepTouchesNoMoreMemory) {
  Arena arena(256 * kMiB);
  std::size_t after_first = 0;
  for (int step = 0; step < 5; ++step) {
    std::byte* a = arena.allocate(30 * kMiB);
    std::byte* b = arena.allocate(7 * kMiB);
    arena.release(a);
    std::byte* c = arena.allocate(40 * kMiB);
    arena.release(b);
    arena.release(c);
    if (step == 0) after_first = arena.touched_bytes();
  }
  EXPECT_EQ(arena.touched_bytes(), after_first);
  EXPECT_NE(arena.allocate(256 * kMiB), nullptr) << "nothing is in use";
}

TEST(Arena, WhatDoesNotFitIsNull) {
  Arena arena(8 * kMiB);
  EXPECT_EQ(arena.allocate(9 * kMiB), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX), nullptr);
  std::byte* all = arena.allocate(8 * kMiB);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(arena.allocate(1), nullptr);
  arena.release(all);
  EXPECT_NE(arena.allocate(1), nullptr);
}

TEST(Arena, WithoutAddressesEverythingIsNull) {
  Arena arena(0);
  EXPECT_EQ(arena.allocate(1), nullptr);
  EXPECT_FALSE(arena.holds(&arena));
}

TEST(Arena, ReleasingUnusedBlockIsBug) {
  Arena arena(8 * kMiB);
  std::byte* block = arena.allocate(kMiB);
  arena.release(block);
  EXPECT_THROW(arena.release(block), InternalError);
}

RC_GTEST_PROP(Arena, BlocksNeverOverlapAndSpaceReturns, (const std::vector<std::uint16_t>& moves)) {
  Arena arena(16 * kMiB);
  std::map<std::byte*, std::size_t> live;
  for (const std::uint16_t move : moves) {
    if (move % 3 == 0 && !live.empty()) {
      auto victim = live.begin();
      std::advance(victim, move / 3 % live.size());
      arena.release(victim->first);
      live.erase(victim);
      continue;
    }
    const std::size_t bytes = std::size_t{1} + move * 64;
    std::byte* block = arena.allocate(bytes);
    if (block == nullptr) continue;
    const auto after = live.lower_bound(block);
    // RC_ASSERT evaluates both sides of an ||, so this is computed outside.
    const bool ends_before = after == live.end() || block + bytes <= after->first;
    const bool begins_after = after == live.begin() || std::prev(after)->first + std::prev(after)->second <= block;
    RC_ASSERT(ends_before);
    RC_ASSERT(begins_after);
    live.emplace(block, bytes);
  }
  for (const auto& [block, bytes] : live) arena.release(block);
  RC_ASSERT(arena.allocate(16 * kMiB) != nullptr);
}

}  // namespace
}  // namespace zero
