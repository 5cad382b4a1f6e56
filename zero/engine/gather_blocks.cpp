#include "zero/engine/gather_blocks.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/memory/host_memory.h"

namespace zero {
namespace {

bool some_lie_off_the_device(const ShardedState& state) {
  return !std::ranges::all_of(state.units(),
                              [&](const Unit& unit) { return state.arrays().parameter.split(unit.index).on_device(); });
}

BlockPool::Allocator allocator(Communicator& comm, bool read_by_peers) {
  if (!read_by_peers) return allocate_host;
  return [&comm](std::size_t bytes) { return comm.allocate(bytes); };
}

}  // namespace

GatherBlocks::GatherBlocks(const ShardedState& state, Communicator& comm, Ledger& ledger)
    : state_(state),
      comm_(comm),
      ledger_(ledger),
      read_by_peers_(some_lie_off_the_device(state)),
      own_(allocator(comm, read_by_peers_), ledger, MemoryTag::kGathered) {}

std::byte* GatherBlocks::acquire(std::int64_t bytes) {
  // Peers may still be reading what an idle block held: a gradient, or this rank's shard of another unit.
  if (borrowed_ != nullptr || read_by_peers_) comm_.drain();
  return pool().acquire(bytes, capacity_bytes_, MemoryTag::kGathered);
}

void GatherBlocks::release(std::byte* block) {
  pool().release(block);
}

void GatherBlocks::placement_changed() {
  if (!state_.placement().parameter_sharded || read_by_peers_ == some_lie_off_the_device(state_)) return;
  ZERO_CHECK(own_.in_use_bytes() == 0, "{} bytes are gathered while states move", own_.in_use_bytes());
  read_by_peers_ = !read_by_peers_;
  own_ = BlockPool(allocator(comm_, read_by_peers_), ledger_, MemoryTag::kGathered);
}

}  // namespace zero
