#include "zero/engine/gather/gather_blocks.h"

#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/account/host_memory.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kBytes = 4096;

// The blocks of one rank at stage 3, with parameters on the device or on the host.
void with_blocks(Tier tier, const std::function<void(GatherBlocks&, ShardedState&, Ledger&)>& body) {
  on_ranks(1, [&](Communicator& comm) {
    const std::vector<Unit> units = make_units(small_specs(), {});
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, units, 1, {.parameter = {.host = tier == Tier::kHost ? 1.0 : 0.0}});
    const TemporaryFolder folder;  // states may move by way of the disk
    DiskTier disk({.paths = {folder.path().string()}, .bytes = 256 * DiskTier::kPageBytes});
    Ledger ledger;
    ShardedState state(units, placement, moments(2), comm, ledger, {.disk = &disk, .movable = true});
    GatherBlocks blocks(state, comm, ledger);
    body(blocks, state, ledger);
  });
}

std::int64_t gathered_bytes_of(const Ledger& ledger) {
  return ledger.held(Tier::kDevice, MemoryTag::kGathered);
}

TEST(GatherBlocks, PeersReadBroughtShards) {
  with_blocks(Tier::kDevice,
              [](const GatherBlocks& blocks, ShardedState&, Ledger&) { EXPECT_FALSE(blocks.read_by_peers()); });
  with_blocks(Tier::kHost,
              [](const GatherBlocks& blocks, ShardedState&, Ledger&) { EXPECT_TRUE(blocks.read_by_peers()); });
}

TEST(GatherBlocks, IdleOnesStayWithinCapacity) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    with_blocks(tier, [](GatherBlocks& blocks, ShardedState&, const Ledger& ledger) {
      blocks.set_capacity(2 * kBytes);
      blocks.release(blocks.acquire(kBytes));
      EXPECT_EQ(gathered_bytes_of(ledger), kBytes);
      blocks.give_back_idle();
      EXPECT_EQ(gathered_bytes_of(ledger), kBytes) << "the capacity has room for it";
      blocks.set_capacity(0);
      blocks.give_back_idle();
      EXPECT_EQ(gathered_bytes_of(ledger), 0);
    });
  }
}

TEST(GatherBlocks, BorrowedOnesAreTheOtherPools) {
  with_blocks(Tier::kDevice, [](GatherBlocks& blocks, ShardedState&, Ledger& ledger) {
    BlockPool other(allocate_host, ledger, MemoryTag::kStaging);
    std::byte* const used_before = other.acquire(kBytes, 0);
    other.release(used_before);
    blocks.borrow(other);
    std::byte* const block = blocks.acquire(kBytes);
    EXPECT_EQ(block, used_before);
    EXPECT_EQ(other.in_use_bytes(), kBytes);
    EXPECT_EQ(gathered_bytes_of(ledger), kBytes) << "while a unit is gathered into the block";
    blocks.release(block);
    EXPECT_EQ(other.in_use_bytes(), 0);
  });
}

TEST(GatherBlocks, ChangeKindWhenStatesMove) {
  with_blocks(Tier::kDevice, [](GatherBlocks& blocks, ShardedState& state, const Ledger& ledger) {
    blocks.set_capacity(kBytes);
    blocks.release(blocks.acquire(kBytes));
    Placement there = state.placement();
    spread_over_tiers(there, state.units(), 1, {.parameter = {.host = 1}});
    state.move_to(there.tiers);
    blocks.placement_changed();
    EXPECT_TRUE(blocks.read_by_peers());
    EXPECT_EQ(gathered_bytes_of(ledger), 0) << "the earlier blocks are released";
  });
}

TEST(GatherBlocks, MovesRequireAllIdle) {
  with_blocks(Tier::kDevice, [](GatherBlocks& blocks, ShardedState& state, Ledger&) {
    std::byte* const block = blocks.acquire(kBytes);
    Placement there = state.placement();
    spread_over_tiers(there, state.units(), 1, {.parameter = {.host = 1}});
    state.move_to(there.tiers);
    EXPECT_THROW(blocks.placement_changed(), InternalError);
    blocks.release(block);
  });
}

}  // namespace
}  // namespace zero
