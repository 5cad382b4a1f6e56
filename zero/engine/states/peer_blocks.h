// peer_blocks(): makes a pool of memory that peers read in place.
//
//   BlockPool staging = peer_blocks(comm, ledger, MemoryTag::kStaging);
//   std::byte* block = staging.acquire(bytes, limit);       // needs no drain() first
//
// The blocks hold gradients before a sum, and shards before a gather. No block is used again or freed before every peer
// has read it. `device`: whose lanes use the blocks. Local; acquire() is Collective, as Communicator::allocate() is.
// Both must outlive the pool.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

inline BlockPool peer_blocks(Communicator& comm, Ledger& ledger, MemoryTag tag, Device& device) {
  return {[&comm](std::size_t bytes) { return comm.allocate(bytes); },
          ledger,
          tag,
          Tier::kDevice,
          [&comm] { comm.drain(); },
          device};
}

}  // namespace zero
