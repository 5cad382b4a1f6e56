// SumLimbs: an exact sum of squares as plain integers: what a device adds to with atomics, and ExactSum takes.
//
//   SumLimbs limbs;                       // zeros, in the device's memory; a kernel adds to it
//   ExactSum sum;
//   sum.add(limbs);                       // once it is on the host
//
// The sum is that of digits[i] * 2^(32 i - 298). A digit has 32 bits of a term's and room for 2^31 terms: nothing is carried
// here. Integers are added in any order: so the bits of a sum are those of ExactSum, on every device.
#pragma once

#include <array>
#include <cstdint>

namespace zero {

struct SumLimbs {
  static constexpr int kLowestExponent = -298;  // of bit 0: the square of the smallest float
  static constexpr std::size_t kNumDigits = 20;
  std::array<std::uint64_t, kNumDigits> digits{};
  // Terms that make the sum infinite, or a NaN (zero/base/exact_sum.h says which).
  std::uint64_t num_infinite = 0, num_nan = 0;
};

}  // namespace zero
