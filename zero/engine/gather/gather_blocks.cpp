#include "zero/engine/gather/gather_blocks.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/engine/states/peer_blocks.h"

namespace zero {
namespace {

bool has_parameters_off_device(const ShardedState& state) {
  return !std::ranges::all_of(state.units(),
                              [&](const Unit& unit) { return state.arrays().parameter.split(unit.index).on_device(); });
}

BlockPool blocks_of(const ShardedState& state, Communicator& comm, Ledger& ledger, bool read_by_peers) {
  Device& device = state.device();
  if (read_by_peers) return peer_blocks(comm, ledger, MemoryTag::kGathered, device);
  return {[&device](std::size_t bytes) { return device.allocate(bytes); },
          ledger,
          MemoryTag::kGathered,
          Tier::kDevice,
          {},
          device};
}

}  // namespace

GatherBlocks::GatherBlocks(const ShardedState& state, Communicator& comm, Ledger& ledger)
    : state_(state),
      comm_(comm),
      ledger_(ledger),
      read_by_peers_(has_parameters_off_device(state)),
      own_(blocks_of(state, comm, ledger, read_by_peers_)) {}

std::byte* GatherBlocks::acquire(std::int64_t bytes, Lane first) {
  return pool().acquire(bytes, capacity_bytes_, MemoryTag::kGathered, first);
}

void GatherBlocks::release(std::byte* block, LastUse last) {
  pool().release(block, std::move(last));
}

void GatherBlocks::placement_changed() {
  if (!state_.placement().parameter_sharded || read_by_peers_ == has_parameters_off_device(state_)) return;
  ZERO_CHECK(own_.in_use_bytes() == 0, "{} bytes are gathered while states move", own_.in_use_bytes());
  own_.trim(0);
  read_by_peers_ = !read_by_peers_;
  own_ = blocks_of(state_, comm_, ledger_, read_by_peers_);
}

}  // namespace zero
