// topk_bytes(): the size of a message that has only the largest elements of a range.
//
//   topk_bytes(100'000, 0.01)       // 97 blocks of 1,024 that keep 10 each, and one of 672 that keeps 7: 977 x 6 bytes
//
// Every block of kTopKBlock elements keeps the same number: its share, rounded to nearest, but at least 1. So a
// message's size is known in advance. The last block of a range may be shorter. zero/comm/code/topk_code.h makes the
// messages.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zero {

constexpr std::int64_t kTopKBlock = 1024;
// Bytes of a sent element: its index in the block in 16 bits, and its value in fp32.
constexpr std::int64_t kTopKElementBytes = sizeof(std::uint16_t) + sizeof(float);

// Returns how many elements of a block of `numel` are sent. `share`: above 0, at most 1.
constexpr std::int64_t topk_of_block(std::int64_t numel, double share) {
  const auto nearest = static_cast<std::int64_t>(share * static_cast<double>(numel) + 0.5);
  return std::clamp<std::int64_t>(nearest, std::min<std::int64_t>(numel, 1), numel);
}

// Returns the bytes of a message for `numel` elements.
constexpr std::int64_t topk_bytes(std::int64_t numel, double share) {
  const std::int64_t blocks = numel / kTopKBlock, rest = numel % kTopKBlock;
  return (blocks * topk_of_block(kTopKBlock, share) + topk_of_block(rest, share)) * kTopKElementBytes;
}

// Returns the bytes per element of a long message.
constexpr double topk_element_bytes(double share) {
  return static_cast<double>(topk_bytes(kTopKBlock, share)) / kTopKBlock;
}

}  // namespace zero
