// for_lanes(): a loop over elements, a vector at a time, then one by one.
//
//   for_lanes(begin, end, [&](auto d, std::size_t i) { ... });     // elements [i, i + Lanes(d))
//
// Elements that do not fill a vector use the same code with one lane, so they have the same bits. A kernel's .cpp
// includes this file once per target, so it has no #pragma once. Local.
#if defined(ZERO_OPTIM_FOR_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_FOR_LANES_INL_H_
#undef ZERO_OPTIM_FOR_LANES_INL_H_
#else
#define ZERO_OPTIM_FOR_LANES_INL_H_
#endif

#include <cstddef>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Use>
HWY_INLINE void for_lanes(std::size_t begin, std::size_t end, Use use) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = begin;
  for (; i + lanes <= end; i += lanes) use(d, i);
  for (; i < end; ++i) use(hn::CappedTag<float, 1>(), i);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
