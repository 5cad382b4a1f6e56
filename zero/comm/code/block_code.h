// Block codes: elements as int8 or int4, with a scale for each 256 of them, for the transfer between ranks.
//
//   encode_for_wire(WireCodec::kInt8, {gradient, DType::kFloat32, numel}, {.key = key, .first = offset}, wire);
//   decode_from_wire(WireCodec::kInt8, wire, numel, sum, DType::kFloat32);
//
// A message is a sequence of blocks; each block is a scale, followed by its codes. The message has wire_bytes() bytes
// (zero/base/numbers/wire_codec.h), and block k begins at byte wire_bytes(codec, k * kWireBlock, ...). In an int4 block
// of n elements, byte j holds elements j and j + h, with h = n/2 rounded up.
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zero/base/numbers/dtype.h"
#include "zero/base/numbers/wire_codec.h"

namespace zero {

struct WireElements {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t numel = 0;
};

// Rounding of elements: the code of x is floor(x / scale + u). With a key, u is a hash of (key, number of the element)
// in (0, 1). This stochastic rounding has mean x over keys, to 1/8,192 of a step, and an error of less than a step.
// Without a key, u is 1/2: rounding to nearest, so equal elements always become equal bytes. Multiples of the scale up
// to the largest element, and 0, keep their values.
struct WireRounding {
  std::uint64_t key = 0;   // 0: round to nearest
  std::int64_t first = 0;  // number of the first element
};

// Writes `elements` as blocks to `wire`, which has room for wire_bytes(codec, numel, ...) bytes. `codec` is not kNone.
// The bytes depend only on the elements, the key and the numbers of the elements. They do not depend on the instruction
// set. They do not depend on how a range is split into calls, if all calls but the last have whole blocks. A block with
// an infinity or NaN decodes to NaNs. A block whose largest magnitude is below 2^-100 decodes to zeros.
void encode_for_wire(WireCodec codec, const WireElements& elements, const WireRounding& rounding, std::byte* wire);

void decode_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, std::byte* out, DType out_dtype);

// Decodes and adds: sum[i] += element i, in fp32.
void add_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, float* sum);

// Hashes two numbers; never returns 0.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

}  // namespace zero
