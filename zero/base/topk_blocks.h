// Top-k blocks: how many of a range's elements cross where only the largest do, and in how many bytes.
//
//   topk_bytes(100'000, 0.01)       // 97 blocks of 1,024 that keep 10 each, and one of 672 that keeps 7: 977 elements, 6 B each
//
// Each block of kTopKBlock elements keeps the same number, a share of it, rounded to the nearest number and at least 1. So a
// message's size is known beforehand. The last block of a range may be shorter. The messages themselves are made in
// zero/comm/topk_code.h.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zero {

constexpr std::int64_t kTopKBlock = 1024;
// Of an element that crosses: its place in the block, in 16 bits, and its value in fp32.
constexpr std::int64_t kTopKElementBytes = sizeof(std::uint16_t) + sizeof(float);

// Elements of a block of `numel` that cross. `share`: above 0, at most 1.
constexpr std::int64_t topk_of_block(std::int64_t numel, double share) {
  const auto nearest = static_cast<std::int64_t>(share * static_cast<double>(numel) + 0.5);
  return std::clamp<std::int64_t>(nearest, std::min<std::int64_t>(numel, 1), numel);
}

// Bytes of a message of `numel` elements.
constexpr std::int64_t topk_bytes(std::int64_t numel, double share) {
  const std::int64_t blocks = numel / kTopKBlock, rest = numel % kTopKBlock;
  return (blocks * topk_of_block(kTopKBlock, share) + topk_of_block(rest, share)) * kTopKElementBytes;
}

// The same of one element of a long message.
constexpr double topk_element_bytes(double share) {
  return static_cast<double>(topk_bytes(kTopKBlock, share)) / kTopKBlock;
}

}  // namespace zero
