// SumLimbs: an exact sum of squares as plain integers. A device adds to it with atomics, and ExactSum accepts it.
//
//   SumLimbs limbs;                       // zeros, in the device's memory; a kernel adds to it
//   ExactSum sum;
//   sum.add(limbs);                       // after it was copied to the host
//
// The sum is that of digits[i] * 2^(32 i - 298). A digit has 32 bits of each term, and room for 2^31 terms, so nothing
// is carried here. Integers can be added in any order, so every device's sums have the bits of ExactSum.
#pragma once

#include <array>
#include <cstdint>

namespace zero {

struct SumLimbs {
  static constexpr int kLowestExponent = -298;  // exponent of bit 0: the square of the smallest float
  static constexpr std::size_t kNumDigits = 20;
  std::array<std::uint64_t, kNumDigits> digits{};
  // Terms that make the sum infinite or NaN (defined in zero/base/numbers/exact_sum.h).
  std::uint64_t num_infinite = 0, num_nan = 0;
};

}  // namespace zero
