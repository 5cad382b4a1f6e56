// average_lanes(): updates the moving average of a vector of parameters (zero/optim/elementwise/averaged_rule.h).
//
// A kernel's .cpp includes this file once per target, so it has no #pragma once.
#if defined(ZERO_OPTIM_AVERAGE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_AVERAGE_LANES_INL_H_
#undef ZERO_OPTIM_AVERAGE_LANES_INL_H_
#else
#define ZERO_OPTIM_AVERAGE_LANES_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Updates `average`. `p`: the parameter after its update. `weight`: 1 - decay.
template <class D>
HWY_INLINE void average_lanes(D d, hn::Vec<D> p, float* HWY_RESTRICT average, float weight) {
  const auto ema = hn::LoadU(d, average);
  hn::StoreU(hn::Add(ema, hn::Mul(hn::Set(d, weight), hn::Sub(p, ema))), d, average);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
