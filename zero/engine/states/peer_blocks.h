// peer_blocks(): a pool of memory that peers read in place: gradients on their way into a sum, shards on their way into a
// gather. No block is handed out again, or given back, before every peer is done with what it held.
//
//   BlockPool staging = peer_blocks(comm, ledger, MemoryTag::kStaging);
//   std::byte* block = staging.acquire(bytes, limit);       // no drain() need come before
//
// `device`: whose lanes use the blocks. Local; acquire() is Collective, as Communicator::allocate() is. Both outlive the pool.
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
