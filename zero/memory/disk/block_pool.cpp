#include "zero/memory/disk/block_pool.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"

namespace zero {

BlockPool::BlockPool(Allocator allocate, Ledger& ledger, MemoryTag tag, Tier tier, std::function<void()> before_reuse,
                     Device& device)
    : allocate_(std::move(allocate)),
      before_reuse_(std::move(before_reuse)),
      device_(&device),
      ledger_(&ledger),
      tag_(tag),
      tier_(tier) {}

std::byte* BlockPool::acquire(std::int64_t bytes, std::int64_t limit_bytes, MemoryTag tag, std::optional<Lane> first) {
  bytes = std::max<std::int64_t>(bytes, 1);  // null means "no block"
  end_of_use();
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.idle && block.bytes() >= bytes && (best == nullptr || block.bytes() < best->bytes())) best = &block;
  }
  if (best != nullptr && (best->bytes() == bytes || in_use_bytes() + bytes > limit_bytes)) {
    best->idle = false;
    const LastUse last = std::exchange(best->last, {});
    first ? follow(*device_, *first, last) : device_->join(last.mark);
    best->buffer.rename(tag);
    return best->buffer.data();
  }
  give_back(limit_bytes - bytes);
  blocks_.push_back({Buffer(allocate_(static_cast<std::size_t>(bytes)), *ledger_, tier_, tag)});
  held_bytes_ += bytes;
  return blocks_.back().buffer.data();
}

std::int64_t BlockPool::in_use_bytes() const {
  std::int64_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.idle ? 0 : block.bytes();
  return bytes;
}

void BlockPool::trim(std::int64_t limit_bytes) {
  end_of_use();
  give_back(limit_bytes);
}

void BlockPool::give_back(std::int64_t limit_bytes) {
  for (auto block = blocks_.begin(); block != blocks_.end() && held_bytes_ > limit_bytes;) {
    if (!block->idle) {
      ++block;
      continue;
    }
    device_->join(block->last.mark);
    held_bytes_ -= block->bytes();
    block = blocks_.erase(block);
  }
}

void BlockPool::release(std::byte* data, LastUse last) {
  const auto block =
      std::find_if(blocks_.begin(), blocks_.end(), [data](const Block& b) { return b.buffer.data() == data; });
  ZERO_CHECK(block != blocks_.end() && !block->idle, "a block was released that is not in use");
  block->idle = true;
  block->last = std::move(last);
}

}  // namespace zero
