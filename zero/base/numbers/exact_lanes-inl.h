// ExactLanes: the exact sum of vectors of doubles >= 0 within a range of exponents, in Highway kernels.
//
//   ExactLanes<D, 2> lanes(exponent);
//   lanes.add(terms);                                   // at most 256 times
//   if (!lanes.add_to(sum)) ...                         // a term was outside of the range: `sum` is unchanged
//
// Each lane adds to a number that starts as 2^exponent. So an addition always keeps the same bits, and the lost part of
// the term is exact. The next level adds the lost part in the same way. This is Rump, Ogita and Oishi's extraction of
// high-order parts; Demmel and Nguyen's bins, but without a remainder. The last level must lose nothing. With two
// levels a lane's sum is below 2^exponent, and terms are multiples of 2^(exponent - 96); each further level adds 44
// bits below. A kernel's .cpp includes this file once per target, so it has no #pragma once.
#if defined(ZERO_BASE_EXACT_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_BASE_EXACT_LANES_INL_H_
#undef ZERO_BASE_EXACT_LANES_INL_H_
#else
#define ZERO_BASE_EXACT_LANES_INL_H_
#endif

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include <hwy/highway.h>

#include "zero/base/numbers/exact_sum.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, int kLevels>
class ExactLanes {
  using V = hn::Vec<D>;

 public:
  static constexpr int kMostAdds = 256;

  HWY_INLINE explicit ExactLanes(int exponent) : exponent_(exponent), cut_(hn::Zero(D())) {
    HWY_UNROLL(4)
    for (int level = 0; level < kLevels; ++level) levels_[level] = hn::Set(D(), first(level));
  }

  HWY_INLINE void add(V term) {
    HWY_UNROLL(4)
    for (int level = 0; level < kLevels; ++level) {
      const V sum = hn::Add(levels_[level], term);
      term = hn::Sub(term, hn::Sub(sum, levels_[level]));
      levels_[level] = sum;
    }
    cut_ = hn::Or(cut_, term);
  }

  // Adds the lanes to `sum`. Returns false, and adds nothing, if a bit was lost.
  HWY_INLINE bool add_to(ExactSum& sum) const {
    if (!hn::AllTrue(D(), hn::Eq(cut_, hn::Zero(D())))) return false;
    std::array<std::int64_t, kLevels> units{};  // units of each level, summed over lanes
    for (int level = 0; level < kLevels; ++level) {
      alignas(64) std::array<double, kLanes> lanes;
      hn::Store(levels_[level], D(), lanes.data());
      for (const double lane : lanes) {
        const std::int64_t grown = bits_of(lane) - bits_of(first(level));
        // The first level only rises, and must not leave its binade; the other levels cannot leave theirs.
        if (level == 0 && (grown < 0 || grown >= std::int64_t{1} << kMantissaBits)) return false;
        units[static_cast<std::size_t>(level)] += grown;
      }
    }
    for (std::size_t level = kLevels - 1; level > 0; --level) {
      units[level - 1] += units[level] >> kLevelBits;
      units[level] &= (std::int64_t{1} << kLevelBits) - 1;
    }
    for (int level = 0; level < kLevels; ++level)
      sum.add_scaled(static_cast<std::uint64_t>(units[static_cast<std::size_t>(level)]),
                     exponent_ - kLevelBits * level - kMantissaBits);
    return true;
  }

  // Returns roughly the sum over lanes, even if it left the range; not finite if a term is not.
  HWY_INLINE double estimate() const {
    double sum = 0;
    for (int level = 0; level < kLevels; ++level) {
      alignas(64) std::array<double, kLanes> lanes;
      hn::Store(levels_[level], D(), lanes.data());
      for (const double lane : lanes) sum += lane - first(level);
    }
    return sum;
  }

 private:
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr int kMantissaBits = 52;
  // Each term gives a level at most half a unit of the level above it. So 256 terms change it by at most half of the
  // power of two that it starts from.
  static constexpr int kLevelBits = 44;

  static std::int64_t bits_of(double value) { return std::bit_cast<std::int64_t>(value); }
  double first(int level) const {
    const auto exponent = static_cast<std::int64_t>(exponent_ - kLevelBits * level);
    const std::int64_t half = level == 0 ? 0 : std::int64_t{1} << (kMantissaBits - 1);  // lower levels rise and fall
    return std::bit_cast<double>(((exponent + 1023) << kMantissaBits) | half);
  }

  int exponent_;
  V levels_[kLevels];
  V cut_;
};

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
