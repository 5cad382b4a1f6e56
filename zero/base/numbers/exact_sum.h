// ExactSum: a sum of squares that does not depend on the order or grouping of its terms.
//
//   ExactSum sum;
//   sum.add(x * x);              // doubles: the square of a float is exact in double
//   sum.add(of_another_rank);    // any order, any grouping
//   sum.add(limbs);              // SumLimbs, from a device
//   sum.value()                  // rounded once
//
// The sum is one long fixed-point number (Kulisch's accumulator), wide enough for 2^40 squares of any floats. Bits of a
// term below 2^-298, the square of the smallest float, are dropped. value() is NaN if a term is negative, NaN, or
// finite and beyond 2^300; otherwise it is infinite if a term is. Plain bytes: another process of the same program may
// receive it. Local.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "zero/base/numbers/sum_limbs.h"

namespace zero {

// Uses one cache line while all terms are usual ones.
class alignas(64) ExactSum {
 public:
  void add(double term) {
    const auto bits = std::bit_cast<std::uint64_t>(term);
    const auto shift = static_cast<std::uint32_t>(bits >> kMantissaBits) - kLeastUsual;
    if (shift >= kNumUsual) return add_unusual(term);
    const std::uint64_t mantissa = (bits & (kImplicit - 1)) | kImplicit;
    // mantissa << shift, without the branch for shifts of 64 and more.
    usual_ += static_cast<Wide>(mantissa >> 1 >> (63 - shift)) << 64 | mantissa << shift;
    if (++num_uncarried_ >= kMostUncarried) carry();
  }
  void add(const ExactSum& other);
  void add(const SumLimbs& limbs);
  void add_to(SumLimbs& limbs) const;
  // Adds integer * 2^exponent, which must be below 2^300.
  void add_scaled(std::uint64_t integer, int exponent) { add_scaled(0, integer, exponent); }
  // Adds (high * 2^64 + low) * 2^exponent.
  void add_scaled(std::uint64_t high, std::uint64_t low, int exponent) {
    if ((high | low) == 0) return;
    // True if all its bits fit among those of usual terms: below 2^100 of their lowest bit.
    const int shift = exponent - kUsualLowest;
    const int lowest = low != 0 ? std::countr_zero(low) : 64 + std::countr_zero(high);
    const int width = high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
    if (lowest + shift >= 0 && width + shift <= kMantissaBits + static_cast<int>(kNumUsual)) {
      const Wide integer = static_cast<Wide>(high) << 64 | low;
      usual_ += shift >= 0 ? integer << shift : integer >> -shift;
    } else {
      add_digits(low, exponent);
      add_digits(high, exponent + 64);
    }
    if (++num_uncarried_ >= kMostUncarried) carry();
  }
  double value() const;

 private:
  __extension__ typedef unsigned __int128 Wide;
  static constexpr int kLowestExponent = SumLimbs::kLowestExponent;  // exponent of bit 0
  static constexpr std::size_t kNumDigits = SumLimbs::kNumDigits;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1075;  // a double is mantissa * 2^(exponent - kBias)
  static constexpr std::uint64_t kImplicit = std::uint64_t{1} << kMantissaBits;
  // Most terms are between 2^-30 and 2^18: their bits fit into one wide number, which is fast.
  static constexpr int kUsualLowest = -82;  // exponent of its bit 0: 2^-298 * 2^(6 * 32 + 24)
  static constexpr std::uint32_t kLeastUsual = kUsualLowest + kBias;
  static constexpr std::uint32_t kNumUsual = 48;
  static constexpr std::uint32_t kMostUncarried = 1U << 26;

  enum class Kind : std::uint8_t { kFinite, kInfinite, kNaN };  // the sum of two sums has the later kind

  void add_unusual(double term);
  void add_at(int position, std::uint64_t bits);
  void add_digits(std::uint64_t integer, int exponent);
  void carry();

  Wide usual_ = 0;
  std::uint32_t num_uncarried_ = 0;
  Kind kind_ = Kind::kFinite;
  bool has_digits_ = false;  // false: all digits are 0
  // 32 bits each, lowest first, and above them the carries so far.
  std::array<std::uint64_t, kNumDigits> digits_{};
};

// Number of floats whose squares make one term, by a fixed tree in double that is the same on every machine. Sums over
// a parameter are sums of these blocks. Blocks begin at multiples of kSumBlock in the unit's flat range, as do all
// slices, shards and tiles. So the partition does not change a bit.
constexpr std::int64_t kSumBlock = 16;

inline double block_sum_of_squares(const float* block) {
  std::array<double, 8> sums{};
  for (std::size_t i = 0; i < 8; ++i) {
    const double low = block[i], high = block[i + 8];
    sums[i] = low * low + high * high;
  }
  for (std::size_t i = 0; i < 4; ++i) sums[i] += sums[i + 4];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

}  // namespace zero
