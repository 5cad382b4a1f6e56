#include "zero/optim/adam_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/adam_kernel.cpp"
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

template <bool kCoupled>
struct Adam {
  static constexpr int kStates = 2;
  AdamConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V& m, V& v) const {
    if constexpr (kCoupled) g = hn::Add(g, hn::Mul(hn::Set(d, c.coupled_decay), p));
    p = hn::Mul(p, hn::Set(d, c.decay));
    // A blend of lanes: the same condition for all, but a branch on it would go through memory.
    const auto from_gradient = hn::Ne(hn::Set(d, c.lerp_from_gradient), hn::Zero(d));
    m = hn::Add(hn::IfThenElse(from_gradient, g, m), hn::Mul(hn::Set(d, c.lerp_factor), hn::Sub(g, m)));
    v = hn::Add(hn::Mul(v, hn::Set(d, c.beta2)), hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), hn::Set(d, c.bias)), hn::Set(d, c.eps));
    p = hn::Add(p, hn::Div(hn::Mul(hn::Set(d, c.minus_step_size), m), denominator));
  }
};

void adam_target(const UpdateSpan& span, const AdamConstants& c) {
  if (c.coupled_decay != 0) {
    update_elements(span, c.gradient_scale, Adam<true>{c});
  } else {
    update_elements(span, c.gradient_scale, Adam<false>{c});
  }
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(adam_target);

void adam_update(const UpdateSpan& span, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(adam_target)(span, constants);
}

namespace {

AdamConstants moments_of(double beta1, double beta2, double eps, const UpdateScalars& scalars) {
  const double weight = 1 - beta1;
  const auto step = static_cast<double>(scalars.step);
  AdamConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.lerp_from_gradient = weight < 0.5 ? 0.0F : 1.0F;
  c.lerp_factor = static_cast<float>(weight < 0.5 ? weight : weight - 1);
  c.beta2 = static_cast<float>(beta2);
  c.one_minus_beta2 = static_cast<float>(1 - beta2);
  c.bias = static_cast<float>(std::sqrt(1 - std::pow(beta2, step)));
  c.eps = static_cast<float>(eps);
  c.minus_step_size = static_cast<float>(-scalars.lr / (1 - std::pow(beta1, step)));
  return c;
}

}  // namespace

AdamConstants adam_constants(const AdamWOptions& options, const UpdateScalars& scalars) {
  AdamConstants c = moments_of(options.beta1, options.beta2, options.eps, scalars);
  c.decay = static_cast<float>(1 - scalars.lr * scalars.weight_decay);
  return c;
}

AdamConstants adam_constants(const AdamOptions& options, const UpdateScalars& scalars) {
  AdamConstants c = moments_of(options.beta1, options.beta2, options.eps, scalars);
  c.coupled_decay = static_cast<float>(scalars.weight_decay);
  return c;
}

}  // namespace zero
#endif  // HWY_ONCE
