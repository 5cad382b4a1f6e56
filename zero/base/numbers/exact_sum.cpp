#include "zero/base/numbers/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zero {
namespace {

constexpr std::uint64_t kLow = 0xffffffffU;

// Element i is 2^(32 i - 298).
constexpr auto kDigitScales = [] {
  std::array<double, SumLimbs::kNumDigits> scales{};
  double scale = 0x1p-298;
  for (double& each : scales) {
    each = scale;
    scale *= 0x1p32;
  }
  return scales;
}();
static_assert(SumLimbs::kLowestExponent == -298);

}  // namespace

void ExactSum::add_unusual(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  // a negative number's exponent is above all accepted ones
  const auto exponent = static_cast<int>(bits >> kMantissaBits);
  constexpr int kBeyond = 300 + kBias - kMantissaBits;
  if (exponent >= kBeyond) {
    if (bits == std::bit_cast<std::uint64_t>(-0.0)) return;
    kind_ = std::max(kind_, term == std::numeric_limits<double>::infinity() ? Kind::kInfinite : Kind::kNaN);
    return;
  }
  std::uint64_t mantissa = bits & (kImplicit - 1);
  if (exponent > 0) mantissa |= kImplicit;
  add_scaled(mantissa, (exponent > 0 ? exponent : 1) - kBias);
}

void ExactSum::add_digits(std::uint64_t integer, int exponent) {
  if (integer == 0) return;
  const int position = exponent - kLowestExponent;
  if (position >= 0) return add_at(position, integer);
  add_at(0, position > -64 ? integer >> -position : 0);
}

// Adds `bits`, below 2^64, from bit `position` on.
void ExactSum::add_at(int position, std::uint64_t bits) {
  const auto digit = static_cast<std::size_t>(position / 32);
  const int shift = position % 32;
  const std::uint64_t low = (bits & kLow) << shift;
  const std::uint64_t high = (bits >> 32) << shift;
  has_digits_ = true;
  digits_[digit] += low & kLow;
  digits_[digit + 1] += (low >> 32) + (high & kLow);
  digits_[digit + 2] += high >> 32;
}

void ExactSum::carry() {
  constexpr int kPosition = kUsualLowest - kLowestExponent;
  add_at(kPosition, static_cast<std::uint64_t>(usual_));
  add_at(kPosition + 64, static_cast<std::uint64_t>(usual_ >> 64));
  usual_ = 0;
  for (std::size_t i = 0; i + 1 < kNumDigits; ++i) {
    digits_[i + 1] += digits_[i] >> 32;
    digits_[i] &= kLow;
  }
  num_uncarried_ = 0;
}

void ExactSum::add(const ExactSum& other) {
  // The rest of a carry counts as one term.
  if (num_uncarried_ + other.num_uncarried_ + 1 >= kMostUncarried) carry();
  if (num_uncarried_ + other.num_uncarried_ + 1 >= kMostUncarried) {
    ExactSum carried = other;
    carried.carry();
    return add(carried);
  }
  usual_ += other.usual_;
  for (std::size_t i = 0; other.has_digits_ && i < kNumDigits; ++i) digits_[i] += other.digits_[i];
  has_digits_ = has_digits_ || other.has_digits_;
  num_uncarried_ += other.num_uncarried_ + 1;
  kind_ = std::max(kind_, other.kind_);
}

void ExactSum::add(const SumLimbs& limbs) {
  has_digits_ = true;
  for (std::size_t i = 0; i < kNumDigits; ++i) {
    digits_[i] += limbs.digits[i] & kLow;
    if (i + 1 < kNumDigits) digits_[i + 1] += limbs.digits[i] >> 32;
  }
  if (limbs.num_infinite > 0) kind_ = std::max(kind_, Kind::kInfinite);
  if (limbs.num_nan > 0) kind_ = Kind::kNaN;
  if (++num_uncarried_ >= kMostUncarried) carry();
}

void ExactSum::add_to(SumLimbs& limbs) const {
  ExactSum carried = *this;
  carried.carry();
  for (std::size_t i = 0; i < kNumDigits; ++i) limbs.digits[i] += carried.digits_[i];
  limbs.num_infinite += kind_ == Kind::kInfinite ? 1U : 0U;
  limbs.num_nan += kind_ == Kind::kNaN ? 1U : 0U;
}

double ExactSum::value() const {
  if (kind_ == Kind::kNaN) return std::numeric_limits<double>::quiet_NaN();
  if (kind_ == Kind::kInfinite) return std::numeric_limits<double>::infinity();
  double sum = 0;
  if (!has_digits_) {
    // Computes the digits that carry() would make of usual terms.
    constexpr int kFirst = (kUsualLowest - kLowestExponent) / 32, kBits = (kUsualLowest - kLowestExponent) % 32;
    sum = static_cast<double>(static_cast<std::uint64_t>(usual_ << kBits) & kLow) * kDigitScales[kFirst];
    Wide rest = usual_ >> (32 - kBits);
    for (std::size_t i = kFirst + 1; rest != 0; ++i, rest >>= 32)
      sum += static_cast<double>(static_cast<std::uint64_t>(rest) & kLow) * kDigitScales[i];
    return sum;
  }
  ExactSum carried = *this;
  carried.carry();
  for (std::size_t i = 0; i < kNumDigits; ++i) sum += static_cast<double>(carried.digits_[i]) * kDigitScales[i];
  return sum;
}

}  // namespace zero
