// GatherBlocks: the memory that units are gathered into.
//
//   GatherBlocks blocks(state, comm, ledger);
//   blocks.set_capacity(64 << 20);
//   std::byte* block = blocks.acquire(bytes, Lane::kUp);  ...  blocks.release(block, used_in(device, Lane::kCompute));
//
// On a device the lane that fills a block waits for its last use (BlockPool).
//
// Where some parameters lie off the device, a rank's shard is brought into its place in a block, and peers read it
// there: such blocks come from the communicator, and none is used again before the peers are done.
//
// Local; acquire() is Collective.
#pragma once

#include <cstdint>

#include "zero/comm/communicator.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

class GatherBlocks {
 public:
  GatherBlocks(const ShardedState& state, Communicator& comm, Ledger& ledger);
  GatherBlocks(const GatherBlocks&) = delete;
  GatherBlocks& operator=(const GatherBlocks&) = delete;

  std::byte* acquire(std::int64_t bytes, Lane first = Lane::kUp);
  void release(std::byte* block, LastUse last = {});

  // Idle blocks beyond it are given back: as new ones are needed, or by give_back_idle().
  void set_capacity(std::int64_t bytes) { capacity_bytes_ = bytes; }
  void give_back_idle() { own_.trim(capacity_bytes_); }
  // From now on blocks are those of another pool, which peers may have been reading. Before the first acquire().
  void borrow(BlockPool& pool) { borrowed_ = &pool; }
  // The state lies elsewhere now. No block may be in use.
  void placement_changed();

  bool read_by_peers() const { return read_by_peers_; }

 private:
  BlockPool& pool() { return borrowed_ != nullptr ? *borrowed_ : own_; }

  const ShardedState& state_;
  Communicator& comm_;
  Ledger& ledger_;
  bool read_by_peers_;  // some parameters lie off the device
  BlockPool own_;
  BlockPool* borrowed_ = nullptr;
  std::int64_t capacity_bytes_ = 0;
};

}  // namespace zero
