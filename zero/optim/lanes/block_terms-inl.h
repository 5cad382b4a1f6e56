// add_block_squares(): adds squares of floats to an ExactSum, one term for each block of kSumBlock elements.
//
//   TermSums sums(sum);
//   add_block_squares(values, numel, sums);       // the last block may be partial
//
// Every instruction set gives the bits of block_sum_of_squares() in zero/base/numbers/exact_sum.h: squares of floats
// are exact in double, and both use the same summation tree. A kernel's .cpp includes this file once per target, so it
// has no #pragma once. Local.
#if defined(ZERO_OPTIM_BLOCK_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_BLOCK_TERMS_INL_H_
#undef ZERO_OPTIM_BLOCK_TERMS_INL_H_
#else
#define ZERO_OPTIM_BLOCK_TERMS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>

#include <hwy/highway.h>

#include "zero/base/numbers/exact_sum.h"
#include "zero/optim/lanes/column_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr auto kTermNumel = static_cast<std::size_t>(kSumBlock);

// The terms of a block's summation tree: the elements, or their squares. plus() returns sum + x or sum + x * x. A
// float's square is exact in double, so a fused multiply-add rounds like a product and a sum.
struct Itself {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return x;
  }
  template <class V>
  HWY_INLINE V plus(V sum, V x) const {
    return hn::Add(sum, x);
  }
};
struct Square {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return hn::Mul(x, x);
  }
  template <class V>
  HWY_INLINE V plus(V sum, V x) const {
    return hn::MulAdd(x, x, sum);
  }
};

// Sums i, i + 4, i + 8 and i + 12 of a block in four lanes: the first two levels of its tree.
template <class D, class Of>
HWY_INLINE hn::Vec<D> quarter_sums(D d, const float* HWY_RESTRICT block, Of of, std::size_t i) {
  const hn::Rebind<float, D> d32;
  const auto at = [&](std::size_t place) { return hn::PromoteTo(d, hn::LoadU(d32, block + place)); };
  return hn::Add(of.plus(of(at(i)), at(i + 8)), of.plus(of(at(i + 4)), at(i + 12)));
}

template <class Of>
HWY_INLINE double block_term(const float* HWY_RESTRICT block, Of of) {
  const hn::CappedTag<double, 4> d;
  HWY_ALIGN double sums[4];
  for (std::size_t i = 0; i < 4; i += hn::Lanes(d)) hn::StoreU(quarter_sums(d, block, of, i), d, sums + i);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

#if !HWY_HAVE_SCALABLE && HWY_MAX_BYTES >= 32
// The same for two blocks: sums i and i + 2 of their quarters.
template <class D, class Of>
HWY_INLINE hn::Vec<D> two_halves(D d, const float* HWY_RESTRICT two, Of of) {
  const auto first = quarter_sums(d, two, of, 0), second = quarter_sums(d, two + kTermNumel, of, 0);
  return hn::Add(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
}
#endif

// Computes the terms of four blocks, in any order; this needs fewer instructions than four single blocks.
template <class Of>
HWY_INLINE void four_block_terms(const float* HWY_RESTRICT block, Of of, double* HWY_RESTRICT terms) {
#if !HWY_HAVE_SCALABLE && HWY_MAX_BYTES >= 32
  const hn::CappedTag<double, 4> d;
  const auto low = two_halves(d, block, of), high = two_halves(d, block + 2 * kTermNumel, of);
  hn::StoreU(hn::Add(hn::InterleaveLower(d, low, high), hn::InterleaveUpper(d, low, high)), d, terms);
#else
  for (std::size_t i = 0; i < 4; ++i) terms[i] = block_term(block + i * kTermNumel, of);
#endif
}

// Computes the terms of at most kMostBlocks blocks. The last block may be partial; zeros fill the last vector.
constexpr std::size_t kMostBlocks = 32;
static_assert(kMostBlocks % TermSums::kLanes == 0);
static_assert(kMostBlocks / TermSums::kLanes <= ColumnSums::most_rows(kDoubleTerms));

template <class Of>
HWY_INLINE std::size_t block_terms(const float* HWY_RESTRICT values, std::size_t numel, Of of,
                                   double* HWY_RESTRICT terms) {
  std::size_t num_terms = 0;
  for (; (num_terms + 4) * kTermNumel <= numel; num_terms += 4)
    four_block_terms(values + num_terms * kTermNumel, of, terms + num_terms);
  for (std::size_t at = num_terms * kTermNumel; at < numel; at += kTermNumel) {
    std::array<float, kTermNumel> block{};
    std::copy_n(values + at, std::min(kTermNumel, numel - at), block.data());
    terms[num_terms++] = block_term(block.data(), of);
  }
  while (num_terms % TermSums::kLanes != 0) terms[num_terms++] = 0;
  return num_terms;
}

HWY_INLINE void add_block_squares(const float* HWY_RESTRICT values, std::size_t numel, TermSums& sums) {
  HWY_ALIGN double terms[kMostBlocks];
  add_terms(terms, block_terms(values, numel, Square{}, terms), sums);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
