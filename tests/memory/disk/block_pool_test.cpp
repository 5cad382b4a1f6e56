#include "zero/memory/disk/block_pool.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/account/host_memory.h"

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr std::int64_t kNoLimit = 1 << 30;

struct Fixture {
  Ledger ledger;
  BlockPool pool{allocate_host, ledger, MemoryTag::kGathered};
  std::int64_t charged() const { return ledger.held(Tier::kDevice, MemoryTag::kGathered); }
};

TEST(BlockPool, ReusesReleasedBlocks) {
  Fixture f;
  std::byte* block = f.pool.acquire(1000, kNoLimit);
  f.pool.release(block);
  EXPECT_EQ(f.pool.acquire(1000, kNoLimit), block);
  EXPECT_EQ(f.pool.held_bytes(), 1000);
}

// The pool waits for other readers before it reuses or frees a block.
TEST(BlockPool, WaitsForOtherReaders) {
  Ledger ledger;
  int num_waits = 0;
  BlockPool pool(allocate_host, ledger, MemoryTag::kGathered, Tier::kDevice, [&num_waits] { ++num_waits; });
  std::byte* block = pool.acquire(1000, kNoLimit);
  pool.release(block);
  num_waits = 0;
  EXPECT_EQ(pool.acquire(1000, kNoLimit), block);
  EXPECT_EQ(num_waits, 1);
  pool.release(block);
  EXPECT_EQ(num_waits, 1) << "release() does not wait";
  pool.trim(0);
  EXPECT_EQ(num_waits, 2);
  EXPECT_EQ(pool.held_bytes(), 0);
}

BlockPool blocks_on(Device& device, Ledger& ledger) {
  return {[&device](std::size_t bytes) { return device.allocate(bytes); },
          ledger,
          MemoryTag::kGathered,
          Tier::kDevice,
          {},
          device};
}

TEST(BlockPool, NextLaneWaitsForLastUse) {
  RecordedDevice device;
  Ledger ledger;
  BlockPool pool = blocks_on(device, ledger);
  std::byte* const block = pool.acquire(1000, kNoLimit, Lane::kUp);
  device.fill(Lane::kCompute, {block, 1000}, std::byte{1});
  pool.release(block, used_in(device, Lane::kCompute));
  std::byte* const other = pool.acquire(2000, kNoLimit, Lane::kCompute);
  device.fill(Lane::kCompute, {other, 2000}, std::byte{2});
  const std::uint64_t later = device.clocks().size();
  EXPECT_EQ(pool.acquire(1000, kNoLimit, Lane::kUp), block);
  device.fill(Lane::kUp, {block, 1000}, std::byte{3});
  EXPECT_FALSE(device.clocks().back().covers(actor_of(Lane::kCompute), later));
  EXPECT_EQ(device.waits().size(), 1U);
  pool.release(block, used_in(device, Lane::kUp));
  pool.release(other, used_in(device, Lane::kCompute));
  EXPECT_EQ(pool.acquire(2000, kNoLimit, Lane::kCompute), other);
  EXPECT_EQ(device.waits().size(), 1U) << "the lane itself does not wait";
  pool.release(other, used_in(device, Lane::kCompute));
  pool.trim(0);
}

// The host waits for the last use before it uses a block again, and before the block is freed.
TEST(BlockPool, HostWaitsForLastUse) {
  RecordedDevice device({.far_behind = true});
  Ledger ledger;
  BlockPool pool([&device](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger, MemoryTag::kStaging,
                 Tier::kHost, {}, device);
  std::byte* const block = pool.acquire(1000, kNoLimit, Lane::kDown);
  device.fill(Lane::kDown, {block, 1000}, std::byte{1});
  pool.release(block, used_in(device, Lane::kDown));
  EXPECT_EQ(pool.acquire(1000, kNoLimit), block);
  const Access access = reads(std::span(block, 1000));
  device.host_touches({&access, 1}, "a test");
  device.fill(Lane::kDown, {block, 1000}, std::byte{2});
  pool.release(block, used_in(device, Lane::kDown));
  pool.trim(0);
  EXPECT_EQ(device.waits().size(), 2U);
}

TEST(BlockPool, BlockInUseIsExclusive) {
  Fixture f;
  EXPECT_NE(f.pool.acquire(64, kNoLimit), f.pool.acquire(64, kNoLimit));
  EXPECT_EQ(f.pool.held_bytes(), 128);
}

TEST(BlockPool, IdleBlocksCountInTheLedger) {
  Fixture f;
  f.pool.release(f.pool.acquire(500, kNoLimit));
  EXPECT_EQ(f.charged(), 500);
}

TEST(BlockPool, LedgerShowsLatestTag) {
  Fixture f;
  f.pool.release(f.pool.acquire(500, kNoLimit));
  std::byte* block = f.pool.acquire(500, kNoLimit, MemoryTag::kStaging);
  EXPECT_EQ(f.charged(), 0);
  EXPECT_EQ(f.ledger.held(Tier::kDevice, MemoryTag::kStaging), 500);
  f.pool.release(block);
  EXPECT_EQ(f.ledger.held(Tier::kDevice, MemoryTag::kStaging), 500) << "also when idle";
}

TEST(BlockPool, LargerBlockServesIfRoomLacks) {
  Fixture f;
  std::byte* large = f.pool.acquire(1000, kNoLimit);
  f.pool.release(large);
  std::byte* small = f.pool.acquire(990, kNoLimit);
  EXPECT_NE(small, large);
  EXPECT_EQ(f.pool.acquire(500, 1200), large) << "990 are in use";
}

TEST(BlockPool, SmallestFittingBlockServesWithoutRoom) {
  Fixture f;
  std::byte* large = f.pool.acquire(1100, kNoLimit);
  std::byte* small = f.pool.acquire(1000, kNoLimit);
  f.pool.release(large);
  f.pool.release(small);
  EXPECT_EQ(f.pool.acquire(600, 0), small);
  EXPECT_EQ(f.pool.acquire(600, 0), large);
}

TEST(BlockPool, SettlesOnLargestBlocksWithoutRoom) {
  Fixture f;
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t bytes : {10, 300, 20}) f.pool.release(f.pool.acquire(bytes, 0));
  }
  EXPECT_EQ(f.pool.held_bytes(), 300);
}

TEST(BlockPool, FreesIdleBlocksAtLimit) {
  Fixture f;
  std::byte* in_use = f.pool.acquire(100, 400);
  f.pool.release(f.pool.acquire(200, 400));
  f.pool.acquire(300, 400);
  EXPECT_EQ(f.pool.held_bytes(), 400);
  EXPECT_EQ(f.charged(), 400);
  f.pool.release(in_use);
}

TEST(BlockPool, TheLimitYieldsToNeed) {
  Fixture f;
  f.pool.acquire(100, 50);
  f.pool.acquire(100, 50);
  EXPECT_EQ(f.pool.held_bytes(), 200);
}

TEST(BlockPool, EmptyBlockHasAddress) {
  Fixture f;
  std::byte* block = f.pool.acquire(0, kNoLimit);
  EXPECT_NE(block, nullptr);
  f.pool.release(block);
}

TEST(BlockPool, ReleasingUnusedBlockIsOurBug) {
  Fixture f;
  std::byte* block = f.pool.acquire(64, kNoLimit);
  std::byte other{};
  EXPECT_THROW(f.pool.release(&other), InternalError);
  f.pool.release(block);
  EXPECT_THROW(f.pool.release(block), InternalError);
}

RC_GTEST_PROP(BlockPool, BlocksNeverOverlapAndLedgerAgrees, ()) {
  Fixture f;
  const auto limit = *rc::gen::inRange<std::int64_t>(1, 5000);
  std::map<std::byte*, std::int64_t> in_use;
  std::int64_t used = 0;
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(-2000, 2000));
  for (const std::int64_t size : sizes) {
    if (size < 0 && !in_use.empty()) {
      const auto victim = std::next(in_use.begin(), -size % static_cast<std::int64_t>(in_use.size()));
      used -= victim->second;
      f.pool.release(victim->first);
      in_use.erase(victim);
    } else if (size > 0) {
      std::byte* block = f.pool.acquire(size, limit);
      std::fill_n(block, size, std::byte{1});
      const auto next = in_use.lower_bound(block);
      RC_ASSERT((next == in_use.end() || block + size <= next->first));  // RC_ASSERT splits an expression at ||
      RC_ASSERT((next == in_use.begin() || std::prev(next)->first + std::prev(next)->second <= block));
      in_use[block] = size;
      used += size;
    }
    RC_ASSERT(f.pool.held_bytes() >= used);
    RC_ASSERT(f.charged() == f.pool.held_bytes());
  }
}

// A budget of gathered units relies on this property.
RC_GTEST_PROP(BlockPool, KeepsLimitIfRequestsDo, ()) {
  Fixture f;
  const auto limit = *rc::gen::inRange<std::int64_t>(100, 5000);
  std::vector<std::pair<std::byte*, std::int64_t>> in_use;
  std::int64_t used = 0;
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 100));
  for (const std::int64_t size : sizes) {
    while (used + size > limit || in_use.size() > 8) {
      const auto victim = in_use.begin() + size % static_cast<std::int64_t>(in_use.size());
      used -= victim->second;
      f.pool.release(victim->first);
      in_use.erase(victim);
    }
    in_use.emplace_back(f.pool.acquire(size, limit), size);
    used += size;
    RC_ASSERT(f.pool.held_bytes() <= limit);
  }
}

TEST(BlockPool, TrimFreesIdleBlocksOnly) {
  Ledger ledger;
  BlockPool pool(allocate_host, ledger, MemoryTag::kGathered);
  std::byte* used = pool.acquire(1000, 10000);
  std::byte* idle = pool.acquire(2000, 10000);
  pool.release(pool.acquire(3000, 10000));
  pool.release(idle);
  pool.trim(6000);
  EXPECT_EQ(pool.held_bytes(), 6000) << "no more than that is held";
  pool.trim(0);
  EXPECT_EQ(pool.held_bytes(), 1000);
  EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kGathered), 1000);
  used[999] = std::byte{1};
  pool.release(used);
}

}  // namespace
}  // namespace zero
