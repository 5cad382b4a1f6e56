#include "tests/support/device/recorded_blocks.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/device/host_device.h"

namespace zero {

std::span<std::byte> RecordedBlocks::add(std::size_t bytes, bool pinned) {
  Block block{.number = num_added_ + 1};
  if (pinned) {
    block.pinned = HostDevice::instance().allocate(bytes);
    block.bytes = block.pinned.bytes();
  } else {
    block.device = std::make_unique<SealedMemory>(bytes);
    block.bytes = block.device->sealed();
  }
  ++num_added_;
  return blocks_.emplace(block.bytes.data(), std::move(block)).first->second.bytes;
}

void RecordedBlocks::remove(const std::byte* data) {
  blocks_.erase(data);
}

const RecordedBlocks::Block* RecordedBlocks::find(std::span<const std::byte> bytes) const {
  const auto after = blocks_.upper_bound(bytes.data());
  if (after == blocks_.begin()) return nullptr;
  const Block& block = std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(bytes.data() - block.bytes.data());
  return offset <= block.bytes.size() && bytes.size() <= block.bytes.size() - offset ? &block : nullptr;
}

std::byte* RecordedBlocks::own(std::span<const std::byte> bytes) const {
  const Block* const block = find(bytes);
  ZERO_CHECK(block != nullptr, "bytes of no block");
  return block->device ? block->device->own(bytes.data()) : block->bytes.data() + (bytes.data() - block->bytes.data());
}

std::string RecordedBlocks::text(std::span<const std::byte> bytes) const {
  const Block* const block = find(bytes);
  if (block == nullptr) return fmt::format("{} bytes at {}", bytes.size(), fmt::ptr(bytes.data()));
  const std::ptrdiff_t begin = bytes.data() - block->bytes.data();
  return fmt::format("bytes {} to {} of {} block {}", begin, begin + static_cast<std::ptrdiff_t>(bytes.size()),
                     block->device ? "device" : "pinned", block->number);
}

}  // namespace zero
