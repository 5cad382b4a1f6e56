// Block codes: elements as int8 or int4 with a scale for each 256, as they cross between ranks.
//
//   encode_for_wire(WireCodec::kInt8, {gradient, DType::kFloat32, numel}, {.key = key, .first = offset}, wire);
//   decode_from_wire(WireCodec::kInt8, wire, numel, sum, DType::kFloat32);
//
// A message is its blocks, each a scale and the codes behind it; its size is wire_bytes() (zero/base/wire_codec.h), and
// block k begins at wire_bytes(codec, k * kWireBlock, ...). A block of int4 holds element j and element j + n/2 in one byte, n
// being its length, rounded up.
//
// An element x becomes floor(x / scale + u). With a key, u is a hash of (key, the element's number) in (0, 1): rounding is
// stochastic, its mean over keys is x to 1/8,192 of a step, and its error is less than a step. Without, u is 1/2: rounding
// is to the nearest step, and the same elements always become the same bytes. A multiple of the scale up to the largest
// stays what it is; so does 0. The bytes depend on elements, key and numbers alone: not on the instruction set, nor on how
// a range is cut into calls, if all but the last are of whole blocks.
//
// A block with an infinity or NaN decodes to NaNs. One whose largest magnitude is below 2^-100 decodes to zeros.
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zero/base/dtype.h"
#include "zero/base/wire_codec.h"

namespace zero {

struct WireElements {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t numel = 0;
};

struct WireRounding {
  std::uint64_t key = 0;   // 0: to the nearest step
  std::int64_t first = 0;  // number of the first element
};

// `wire`: room for wire_bytes(codec, numel, ...). `codec` is not kNone.
void encode_for_wire(WireCodec codec, const WireElements& elements, const WireRounding& rounding, std::byte* wire);

void decode_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, std::byte* out, DType out_dtype);

// sum[i] += element i, in fp32.
void add_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, float* sum);

// A hash of two numbers; never 0.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

}  // namespace zero
