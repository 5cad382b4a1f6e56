// Adam: the arithmetic of adam_kernel.h for one vector of elements. It is a rule for update_elements(). 8-bit AdamW
// calls its parts between the decoding and the encoding of moments.
//
// A kernel's .cpp includes this file once per target, so it has no #pragma once.
#if defined(ZERO_OPTIM_ADAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_ADAM_INL_H_
#undef ZERO_OPTIM_ADAM_INL_H_
#else
#define ZERO_OPTIM_ADAM_INL_H_
#endif

#include <hwy/highway.h>

#include "zero/optim/elementwise/adam_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kCoupled>
struct Adam {
  static constexpr int kStates = 2;
  AdamConstants c;

  template <class D, class V>
  HWY_INLINE void update_moments(D d, V g, V& m, V& v) const {
    // Blends lanes: the condition is the same for all lanes, but a branch on it would spill vectors to memory.
    const auto from_gradient = hn::Ne(hn::Set(d, c.lerp_from_gradient), hn::Zero(d));
    update_moments_from(d, hn::IfThenElse(from_gradient, g, m), g, m, v);
  }
  // `start`: the end from which lerp() starts.
  template <class D, class V>
  HWY_INLINE void update_moments_from(D d, V start, V g, V& m, V& v) const {
    m = hn::Add(start, hn::Mul(hn::Set(d, c.lerp_factor), hn::Sub(g, m)));
    v = hn::Add(hn::Mul(v, hn::Set(d, c.beta2)), hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
  }

  // The parts of p * decay + numerator / denominator, with the new moments.
  template <class D, class V>
  HWY_INLINE V numerator(D d, V m) const {
    return hn::Mul(hn::Set(d, c.minus_step_size), m);
  }
  template <class D, class V>
  HWY_INLINE V denominator(D d, V root) const {
    return hn::Add(hn::Div(root, hn::Set(d, c.bias)), hn::Set(d, c.eps));
  }
  template <class D, class V>
  HWY_INLINE V stepped(D d, V p, V step) const {
    return hn::Add(hn::Mul(p, hn::Set(d, c.decay)), step);
  }

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V& m, V& v) const {
    if constexpr (kCoupled) g = hn::Add(g, hn::Mul(hn::Set(d, c.coupled_decay), p));
    update_moments(d, g, m, v);
    p = stepped(d, p, hn::Div(numerator(d, m), denominator(d, hn::Sqrt(v))));
  }
};

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
