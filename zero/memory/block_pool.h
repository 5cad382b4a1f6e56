// BlockPool: memory that comes and goes in a few sizes, kept between uses.
//
// acquire() hands out the smallest idle block that is large enough, else a new one; release() keeps the block for the
// next acquire(). Idle blocks count in the ledger like those in use, so a limit bounds what is held, not what is
// wanted.
//
//   BlockPool pool(allocate_host, ledger, MemoryTag::kGathered);
//   std::byte* block = pool.acquire(bytes, limit);  ...  pool.release(block);
//
// Local; one thread at a time. With an allocator that is Collective, acquire() is Collective.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "zero/memory/buffer.h"

namespace zero {

class BlockPool {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  BlockPool(Allocator allocate, Ledger& ledger, MemoryTag tag);

  // Contents are whatever the last user left. Where a new block would bring the pool over `limit_bytes`, idle blocks
  // are given back first; blocks in use are never refused more: the limit yields to need.
  // Never null, also for 0 bytes.
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes);
  void release(std::byte* block);

  std::int64_t held_bytes() const { return held_bytes_; }
  // True when the block handed out last had been used before.
  bool reused_last() const { return reused_last_; }

 private:
  struct Block {
    Buffer buffer;
    bool idle = false;
  };
  Allocator allocate_;
  Ledger& ledger_;
  MemoryTag tag_;
  std::vector<Block> blocks_;
  std::int64_t held_bytes_ = 0;
  bool reused_last_ = false;
};

}  // namespace zero
