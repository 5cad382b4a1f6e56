// Top-k code: the largest elements of a range as a message, and the sum of such messages.
//
//   std::vector<std::byte> message(topk_bytes(x.size(), share));
//   take_largest(x, share, message);              // elements in the message become 0 in x; the others stay
//   add_largest(message, share, sum);             // sum[i] += element i of the message, in fp32
//
// From each block of kTopKBlock elements, the topk_of_block() largest by magnitude are taken; among equal ones, the
// first. An infinity counts as larger than any number, and a NaN as larger than an infinity, so neither stays in x. A
// message is a sequence of blocks. Each block has the ascending positions of its elements, in 16 bits, and then their
// exact values in fp32. A message has topk_bytes() bytes (zero/base/numbers/topk_blocks.h).
//
// The bytes depend only on the elements. Local.
#pragma once

#include <cstddef>
#include <span>

#include "zero/base/numbers/topk_blocks.h"

namespace zero {

// Moves the largest elements into `message`, which has topk_bytes(elements.size(), share) bytes.
void take_largest(std::span<float> elements, double share, std::span<std::byte> message);

// Adds a message to `sum`, which has as many elements as the range of the message. An element's position beyond its
// block is a broken invariant.
void add_largest(std::span<const std::byte> message, double share, std::span<float> sum);

}  // namespace zero
