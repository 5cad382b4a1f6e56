// BlockPool: blocks of a few sizes that are reused.
//
//   BlockPool pool(allocate_host, ledger, MemoryTag::kGathered);
//   std::byte* block = pool.acquire(bytes, limit);  ...  pool.release(block);
//   pool.release(block, used_in(device, Lane::kCompute));
//   pool.acquire(bytes, limit, tag, Lane::kUp);       // kUp waits for the work of kCompute before release()
//
// acquire() returns an idle block of sufficient size, else a new one; release() keeps the block for the next acquire().
// Idle blocks count in the ledger like blocks in use. They are freed if a new block would exceed the limit. So a caller
// that uses no more than the limit at a time never holds more. The ledger has a block under the pool's tag, or the tag
// of its last acquire(). Blocks of a device have a last use, given to release(). The next user waits for it: the lane
// that acquire() names, otherwise the host. The host also waits before it frees a block. Host memory has no such uses.
// Local; one thread at a time. If the allocator is Collective, so is acquire().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/device/host_device.h"
#include "zero/memory/account/buffer.h"

namespace zero {

class BlockPool {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  // `before_reuse` is called before idle blocks are reused or freed; it must end all other reads of them. `device`: the
  // device whose lanes use the blocks; it must outlive the pool.
  BlockPool(Allocator allocate, Ledger& ledger, MemoryTag tag, Tier tier = Tier::kDevice,
            std::function<void()> before_reuse = {}, Device& device = HostDevice::instance());

  // Returns a block with undefined content, never null, also for 0 bytes. If blocks in use leave no room for `bytes`
  // below `limit_bytes`, it returns the smallest idle block that is large enough. Only if there is none, it allocates
  // beyond the limit. With a limit of 0 the pool keeps few blocks of the largest size.
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes) { return acquire(bytes, limit_bytes, tag_); }
  // `first`: the lane that uses the block first; none: the host.
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes, MemoryTag tag, std::optional<Lane> first = {});
  std::byte* acquire(std::int64_t bytes, std::int64_t limit_bytes, Lane first) {
    return acquire(bytes, limit_bytes, tag_, first);
  }
  void release(std::byte* block, LastUse last = {});
  // Frees idle blocks until at most `limit_bytes` are held. Collective if the allocator is.
  void trim(std::int64_t limit_bytes);

  std::int64_t held_bytes() const { return held_bytes_; }
  std::int64_t in_use_bytes() const;

 private:
  struct Block {
    Buffer buffer;
    bool idle = false;
    LastUse last{};  // last use of an idle block
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
