// Kernels on elements that belong to no rule: cast, and add.
//
//   cast(device, Lane::kReduce, {.from = g, .from_dtype = DType::kBFloat16, .to = flat, .numel = n});
//
// Arrays are contiguous, aligned as their type asks, and do not overlap. Values are rounded to the nearest, once, with the
// same bits on every device.
#pragma once

#include <cstdint>

#include "zero/base/dtype.h"
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
extern const Kernel kRound;  // `to`, which is fp32, rounded to from_dtype; `from` is not read

// Queues the kernel; a cast between arrays of one type is a copy.
void cast(Device& device, Lane lane, const ElementArguments& arguments);
void add(Device& device, Lane lane, const ElementArguments& arguments);
// Values of fp32 in their place: those that `dtype` has, too.
void round_to(Device& device, Lane lane, DType dtype, std::span<float> values);

}  // namespace zero
