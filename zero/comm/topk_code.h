// Top-k code: the largest elements of a range as a message, and the sum of such messages.
//
//   std::vector<std::byte> message(topk_bytes(x.size(), share));
//   take_largest(x, share, message);              // what went into the message is 0 in x; the rest of x stays
//   add_largest(message, share, sum);             // sum[i] += element i of the message, in fp32
//
// Of each block of kTopKBlock elements the topk_of_block() largest by magnitude are taken; of equal ones the first. An
// infinity is larger than any number, and a NaN larger than it, so that none stays behind. A message is its blocks, each the
// places of its elements in the block, ascending, in 16 bits, and behind them their values in fp32: exact. Its size is
// topk_bytes() (zero/base/topk_blocks.h).
//
// The bytes depend on the elements alone. Local.
#pragma once

#include <cstddef>
#include <span>

#include "zero/base/topk_blocks.h"

namespace zero {

// `message`: topk_bytes(elements.size(), share) bytes.
void take_largest(std::span<float> elements, double share, std::span<std::byte> message);

// `sum`: as many elements as the message was made of. An element's place beyond its block is a broken invariant.
void add_largest(std::span<const std::byte> message, double share, std::span<float> sum);

}  // namespace zero
