// add_terms(): adds terms of one or four rows to the columns of ColumnSums (zero/optim/rule/column_sums.h).
//
//   add_terms<1>(terms, numel, 0, high, low);
//   add_terms<4>(terms, numel, stride, high, low);         // row r begins at terms + r * stride
//
// The low sum receives the rounding error of the high sum. That error is exact, because high is the larger summand
// (Dekker 1971). A kernel's .cpp includes this file once per target, so it has no #pragma once. Local.
#if defined(ZERO_OPTIM_COLUMN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_COLUMN_SUMS_INL_H_
#undef ZERO_OPTIM_COLUMN_SUMS_INL_H_
#else
#define ZERO_OPTIM_COLUMN_SUMS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

#include "zero/optim/rule/term_sums.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adds a vector of terms to `high`, and the rounding errors of these additions to `low`. Two parameters instead of a
// struct: SVE vectors have no size and cannot be members.
template <class V>
HWY_INLINE void add_term(V term, V& high, V& low) {
  const V sum = hn::Add(high, term);
  low = hn::Add(low, hn::Sub(term, hn::Sub(sum, high)));
  high = sum;
}

template <int kRows, class D>
HWY_INLINE void add_term_lanes(D d, const float* HWY_RESTRICT terms, std::size_t stride, double* HWY_RESTRICT high,
                               double* HWY_RESTRICT low) {
  const hn::Rebind<float, D> d32;
  auto sum = hn::LoadU(d, high), cut = hn::LoadU(d, low);
  for (std::size_t row = 0; row < kRows; ++row)
    add_term(hn::PromoteTo(d, hn::LoadU(d32, terms + row * stride)), sum, cut);
  hn::StoreU(sum, d, high);
  hn::StoreU(cut, d, low);
}

template <int kRows>
HWY_INLINE void add_terms(const float* HWY_RESTRICT terms, std::size_t numel, std::size_t stride,
                          double* HWY_RESTRICT high, double* HWY_RESTRICT low) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= numel; i += lanes) add_term_lanes<kRows>(d, terms + i, stride, high + i, low + i);
  const hn::CappedTag<double, 1> one;
  for (; i < numel; ++i) add_term_lanes<kRows>(one, terms + i, stride, high + i, low + i);
}

// The high halves of the largest term and of the smallest nonzero term, which contain the exponents.
struct TermRange {
  std::uint32_t least, most;
  static int exponent_of(std::uint32_t half) { return static_cast<int>(half >> 20) - 1023; }
};

HWY_INLINE TermRange range_of(const double* HWY_RESTRICT terms, std::size_t numel) {
#if HWY_TARGET == HWY_SCALAR
  TermRange range{~0U, 0};
  for (std::size_t i = 0; i < numel; ++i) {
    const auto half = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(terms[i]) >> 32);
    range.most = std::max(range.most, half);
    range.least = std::min(range.least, half - 1);
  }
  return {range.least + 1, range.most};
#else
  const hn::CappedTag<double, TermSums::kLanes> d;
  const hn::Repartition<std::uint32_t, decltype(d)> du;
  const hn::Rebind<std::uint64_t, decltype(d)> du64;
  // Clears low halves: as zeros they are neither largest nor smallest.
  const auto halves = hn::Set(du64, 0xffffffff00000000U);
  auto most = hn::Zero(du), before_least = hn::Set(du, ~0U);
  for (std::size_t i = 0; i < numel; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(du, hn::And(hn::BitCast(du64, hn::LoadU(d, terms + i)), halves));
    most = hn::Max(most, bits);
    before_least = hn::Min(before_least, hn::Sub(bits, hn::Set(du, 1)));
  }
  return {hn::GetLane(hn::MinOfLanes(du, before_least)) + 1, hn::GetLane(hn::MaxOfLanes(du, most))};
#endif
}

// Adds `numel` terms, a multiple of TermSums::kLanes, with at most most_rows(kDoubleTerms) terms per lane.
HWY_INLINE void add_terms(const double* HWY_RESTRICT terms, std::size_t numel, TermSums& into) {
  const hn::CappedTag<double, TermSums::kLanes> d;
  const TermRange range = range_of(terms, numel);
  if (range.most == 0) return;
  ColumnSums& columns = into.columns();
  if (!columns.make_room(static_cast<int>(numel / TermSums::kLanes), TermRange::exponent_of(range.least),
                         TermRange::exponent_of(range.most))) {
    for (std::size_t i = 0; i < numel; ++i) into.add_one(terms[i]);
    return;
  }
  for (std::size_t lane = 0; lane < TermSums::kLanes; lane += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, columns.high() + lane), cut = hn::LoadU(d, columns.low() + lane);
    for (std::size_t i = lane; i < numel; i += TermSums::kLanes) add_term(hn::LoadU(d, terms + i), sum, cut);
    hn::StoreU(sum, d, columns.high() + lane);
    hn::StoreU(cut, d, columns.low() + lane);
  }
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
