// kCast, kAdd, kRound: kernels on elements that belong to no update rule.
//
//   cast(device, Lane::kReduce, {.from = g, .from_dtype = DType::kBFloat16, .to = flat, .numel = n});
//
// Arrays are contiguous, have the alignment of their type, and do not overlap. Values are rounded to nearest, once,
// with the same bits on every device.
#pragma once

#include <cstdint>

#include "zero/base/numbers/dtype.h"
#include "zero/device/device.h"

namespace zero {

struct ElementArguments {
  const std::byte* from = nullptr;
  DType from_dtype = DType::kFloat32;
  std::byte* to = nullptr;
  DType to_dtype = DType::kFloat32;
  std::int64_t numel = 0;
};

extern const Kernel kCast;   // to = from
extern const Kernel kAdd;    // to = to + from, added in fp32
extern const Kernel kRound;  // rounds `to`, which is fp32, to from_dtype; `from` is not read

// Queue a kernel. A cast between arrays of the same type is a copy.
void cast(Device& device, Lane lane, const ElementArguments& arguments);
void add(Device& device, Lane lane, const ElementArguments& arguments);
// Rounds fp32 values in place to values that `dtype` can represent.
void round_to(Device& device, Lane lane, DType dtype, std::span<float> values);

}  // namespace zero
