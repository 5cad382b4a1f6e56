// BlockPool: memory that comes and goes in a few sizes, kept between uses.
//
// acquire() hands out an idle block of the size asked for, else a new one; release() keeps the block for the next
// acquire(). Idle blocks count in the ledger like those in use, and are given back where a new one would break the
// limit. So a caller that uses no more than the limit at a time never holds more.
//
//   BlockPool pool(allocate_host, ledger, MemoryTag::kGathered);
//   std::byte* block = pool.acquire(bytes, limit);  ...  pool.release(block);
//
// A block stands in the ledger under the pool's tag, or the one that it was acquired for last.
//
// Blocks that lanes of a device use: release() takes the last use, and whoever uses the block next waits for that, the lane
// named by acquire(), or else the host. So does the host before a block is given back. Memory of the host has no such uses.
//
//   pool.release(block, used_in(device, Lane::kCompute));
//   pool.acquire(bytes, limit, tag, Lane::kUp);       // kUp comes after kCompute as it was at release()
//
// Local; one thread at a time. With an allocator that is Collective, acquire() is Collective.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/device/host_device.h"
#include "zero/memory/buffer.h"

namespace zero {

class BlockPool {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  // `before_reuse` is called before idle blocks are handed out or given back: whoever else reads them ends there. `device`:
  // whose lanes use blocks; it outlives the pool.
  BlockPool(Allocator allocate, Ledger& ledger, MemoryTag tag, Tier tier = Tier::kDevice,
            std::function<void()> before_reuse = {}, Device& device = HostDevice::instance());

  // Contents are whatever the last user left. Where what is in use leaves no room for `bytes` below `limit_bytes`, the
  // smallest idle block that is large enough serves, and a new one only where there is none: the limit yields to need.
  // With a limit of 0 the pool so settles on few blocks of the largest size. Never null, also for 0 bytes.
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes) { return acquire(bytes, limit_bytes, tag_); }
  // `first`: the lane that uses it first; without one, the host.
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes, MemoryTag tag, std::optional<Lane> first = {});
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes, Lane first) {
    return acquire(bytes, limit_bytes, tag_, first);
  }
  void release(std::byte* block, LastUse last = {});
  // Gives idle blocks back until no more than `limit_bytes` are held. As Collective as the allocator.
  void trim(std::int64_t limit_bytes);

  std::int64_t held_bytes() const { return held_bytes_; }
  std::int64_t in_use_bytes() const;

 private:
  struct Block {
    Buffer buffer;
    bool idle = false;
    LastUse last{};  // of an idle one
    std::int64_t bytes() const { return static_cast<std::int64_t>(buffer.size()); }
  };
  void give_back(std::int64_t limit_bytes);
  void end_of_use() const {
    if (before_reuse_) before_reuse_();
  }

  Allocator allocate_;
  std::function<void()> before_reuse_;
  Device* device_;
  Ledger* ledger_;
  MemoryTag tag_;
  Tier tier_;
  std::vector<Block> blocks_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace zero
