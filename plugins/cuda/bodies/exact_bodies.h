// add_term_to(), WideSum, rounded_value(): exact sums of doubles as integers, with the bits of ExactSum.
//
//   WideSum sum;                                              // of one thread, in registers
//   if (!sum.add(term)) add_term_to(limbs, term, atomically); // a term outside of its window
//   sum.add_to(limbs, atomically);
//
// `adder(std::uint64_t& into, std::uint64_t value)` adds to a limb: atomically on a device, plainly on the host.
// Integers can be added in any order, so threads need no order. zero/base/numbers/exact_sum.h describes ExactSum.
// Local.
#pragma once

#include "zero/base/numbers/sum_limbs.h"

#include "plugins/cuda/bodies/rounded.h"

namespace zero::bodies {

constexpr int kMantissaBits = 52, kDoubleBias = 1075;  // a double is mantissa * 2^(exponent - kDoubleBias)
constexpr std::uint64_t kImplicitBit = std::uint64_t{1} << kMantissaBits;

// Adds any term.
template <typename Adder>
ZERO_BODY void add_term_to(SumLimbs& limbs, double term, Adder adder) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  // a negative number's exponent is above all accepted ones
  const auto exponent = static_cast<int>(bits >> kMantissaBits);
  constexpr int kBeyond = 300 + kDoubleBias - kMantissaBits;
  if (exponent >= kBeyond) {
    if (bits == 0x8000000000000000U) return;
    adder(bits == 0x7ff0000000000000U ? limbs.num_infinite : limbs.num_nan, std::uint64_t{1});
    return;
  }
  std::uint64_t mantissa = bits & (kImplicitBit - 1);
  if (exponent > 0) mantissa |= kImplicitBit;
  int position = (exponent > 0 ? exponent : 1) - kDoubleBias - SumLimbs::kLowestExponent;
  if (position < 0) {
    mantissa = position > -64 ? mantissa >> -position : 0;
    position = 0;
  }
  if (mantissa == 0) return;
  const int digit = position / 32, shift = position % 32;
  const std::uint64_t low = (mantissa & 0xffffffffU) << shift, high = (mantissa >> 32) << shift;
  adder(limbs.digits[digit], low & 0xffffffffU);
  adder(limbs.digits[digit + 1], (low >> 32) + (high & 0xffffffffU));
  if ((high >> 32) != 0) adder(limbs.digits[digit + 2], high >> 32);
}

// Returns the sum, rounded as by ExactSum::value().
ZERO_BODY double rounded_value(const SumLimbs& limbs) {
  if (limbs.num_nan > 0) return float_of(0x7fc00000U);
  if (limbs.num_infinite > 0) return float_of(0x7f800000U);
  double sum = 0, scale = 0x1p-298;  // `scale`: of a digit, 2^(32 i - 298)
  std::uint64_t carried = 0;
  for (std::size_t i = 0; i < SumLimbs::kNumDigits; ++i) {
    carried += limbs.digits[i];
    const bool last = i + 1 == SumLimbs::kNumDigits;
    sum = add(sum, mul(static_cast<double>(last ? carried : carried & 0xffffffffU), scale));
    scale = mul(scale, 0x1p32);
    carried >>= 32;
  }
  return sum;
}

// A sum of 192 bits, from 2^-106 on. It accepts up to 2^38 terms from 2^-54 to below 2^48.
class WideSum {
 public:
  // Returns false, and adds nothing, for any other term except zeros.
  ZERO_BODY bool add(double term) {
    const auto bits = std::bit_cast<std::uint64_t>(term);
    if (bits << 1 == 0) return true;
    const auto shift = static_cast<std::uint32_t>(bits >> kMantissaBits) - kLeastExponent;
    if (shift >= kNumExponents) return false;
    const std::uint64_t mantissa = (bits & (kImplicitBit - 1)) | kImplicitBit;
    const std::uint32_t within = shift % 64;
    const std::uint64_t low = mantissa << within, high = mantissa >> 1 >> (63 - within);
    const bool upper = shift >= 64;
    add_words(upper ? 0 : low, upper ? low : high, upper ? high : 0);
    return true;
  }
  template <typename Adder>
  ZERO_BODY void add_to(SumLimbs& limbs, Adder adder) const {
    for (int i = 0; i < 3; ++i) {
      if ((words_[i] & 0xffffffffU) != 0) adder(limbs.digits[kFirstDigit + 2 * i], words_[i] & 0xffffffffU);
      if ((words_[i] >> 32) != 0) adder(limbs.digits[kFirstDigit + 2 * i + 1], words_[i] >> 32);
    }
  }
  ZERO_BODY std::uint64_t word(int i) const { return words_[i]; }
  ZERO_BODY void add(const WideSum& other) { add_words(other.words_[0], other.words_[1], other.words_[2]); }
  ZERO_BODY static WideSum of_words(std::uint64_t low, std::uint64_t middle, std::uint64_t high) {
    WideSum sum;
    sum.add_words(low, middle, high);
    return sum;
  }

 private:
  static constexpr int kFirstDigit = 6;
  static constexpr int kLowest = SumLimbs::kLowestExponent + 32 * kFirstDigit;  // exponent of bit 0
  static constexpr std::uint32_t kLeastExponent = kLowest + kDoubleBias;
  static constexpr std::uint32_t kNumExponents = 102;

  ZERO_BODY void add_words(std::uint64_t low, std::uint64_t middle, std::uint64_t high) {
    words_[0] += low;
    const std::uint64_t carry = words_[0] < low ? 1U : 0U;
    words_[1] += carry;
    high += words_[1] < carry ? 1U : 0U;
    words_[1] += middle;
    high += words_[1] < middle ? 1U : 0U;
    words_[2] += high;
  }

  std::uint64_t words_[3] = {};
};

}  // namespace zero::bodies
