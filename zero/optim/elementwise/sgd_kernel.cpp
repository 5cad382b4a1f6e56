#include "zero/optim/elementwise/sgd_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/elementwise/sgd_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/lanes/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

struct Sgd {
  static constexpr int kStates = 0;
  SgdConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V&, V&) const {
    g = hn::Add(g, hn::Mul(hn::Set(d, c.weight_decay), p));
    p = hn::Add(p, hn::Mul(hn::Set(d, c.minus_lr), g));
  }
};

template <bool kFirst, bool kNesterov>
struct Momentum {
  static constexpr int kStates = 1;
  SgdConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V& buffer, V&) const {
    g = hn::Add(g, hn::Mul(hn::Set(d, c.weight_decay), p));
    buffer = kFirst ? g : hn::Add(hn::Mul(buffer, hn::Set(d, c.momentum)), g);
    g = kNesterov ? hn::Add(g, hn::Mul(buffer, hn::Set(d, c.momentum))) : buffer;
    p = hn::Add(p, hn::Mul(hn::Set(d, c.minus_lr), g));
  }
};

template <bool kFirst>
void momentum_target(const UpdateSpan& span, const SgdConstants& c) {
  if (c.nesterov) {
    update_elements(span, c.gradient_scale, Momentum<kFirst, true>{c});
  } else {
    update_elements(span, c.gradient_scale, Momentum<kFirst, false>{c});
  }
}

void sgd_target(const UpdateSpan& span, const SgdConstants& c) {
  if (span.states[0] == nullptr) {
    update_elements(span, c.gradient_scale, Sgd{c});
  } else {
    c.first_step ? momentum_target<true>(span, c) : momentum_target<false>(span, c);
  }
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(sgd_target);

void sgd_update(const UpdateSpan& span, const SgdConstants& constants) {
  HWY_DYNAMIC_DISPATCH(sgd_target)(span, constants);
}

SgdConstants sgd_constants(const SgdOptions& options, const UpdateScalars& scalars) {
  SgdConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.weight_decay = static_cast<float>(scalars.weight_decay);
  c.momentum = static_cast<float>(options.momentum);
  c.nesterov = options.nesterov;
  c.first_step = scalars.step == 1;
  c.minus_lr = static_cast<float>(-scalars.lr);
  return c;
}

const Kernel kSgd = kernel_of<SgdArguments, &update_each<SgdConstants, &sgd_update>>("sgd");

}  // namespace zero
#endif  // HWY_ONCE
