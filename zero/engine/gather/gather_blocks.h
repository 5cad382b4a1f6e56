// GatherBlocks: the memory that units are gathered into.
//
//   GatherBlocks blocks(state, comm, ledger);
//   blocks.set_capacity(64 << 20);
//   std::byte* block = blocks.acquire(bytes, Lane::kUp);  ...  blocks.release(block, used_in(device, Lane::kCompute));
//
// On a device, the lane that fills a block waits for the block's last use (BlockPool). If some parameters are off the
// device, a rank's shard is copied to its place in a block, and peers read it there. Such blocks are the
// communicator's, and none is used again before the peers have read it. Local; acquire() is Collective.
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

  // Sets the bytes of idle blocks to keep. More are freed when new blocks are needed, or by give_back_idle().
  void set_capacity(std::int64_t bytes) { capacity_bytes_ = bytes; }
  void give_back_idle() { own_.trim(capacity_bytes_); }
  // Uses the blocks of another pool, which peers may have been reading. Call it before the first acquire().
  void borrow(BlockPool& pool) { borrowed_ = &pool; }
  // Call it after the states have moved to other tiers. No block may be in use.
  void placement_changed();

  bool read_by_peers() const { return read_by_peers_; }

 private:
  BlockPool& pool() { return borrowed_ != nullptr ? *borrowed_ : own_; }

  const ShardedState& state_;
  Communicator& comm_;
  Ledger& ledger_;
  bool read_by_peers_;  // some parameters are off the device
  BlockPool own_;
  BlockPool* borrowed_ = nullptr;
  std::int64_t capacity_bytes_ = 0;
};

}  // namespace zero
