#include "zero/optim/elementwise/lion_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/elementwise/lion_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/lanes/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

struct Lion {
  static constexpr int kStates = 1;
  LionConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V& m, V&) const {
    const auto blend = [d](V from, float factor, V to, float rest) HWY_ATTR {
      return hn::Add(hn::Mul(from, hn::Set(d, factor)), hn::Mul(to, hn::Set(d, rest)));
    };
    const V direction = blend(m, c.beta1, g, c.one_minus_beta1);
    const V zero = hn::Zero(d);
    const V negative = hn::IfThenElse(hn::Lt(direction, zero), hn::Set(d, -1.0F), direction);
    const V sign = hn::IfThenElse(hn::Gt(direction, zero), hn::Set(d, 1.0F), negative);
    p = hn::Add(hn::Mul(p, hn::Set(d, c.decay)), hn::Mul(hn::Set(d, c.minus_lr), sign));
    m = blend(m, c.beta2, g, c.one_minus_beta2);
  }
};

void lion_target(const UpdateSpan& span, const LionConstants& c) {
  update_elements(span, c.gradient_scale, Lion{c});
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(lion_target);

void lion_update(const UpdateSpan& span, const LionConstants& constants) {
  HWY_DYNAMIC_DISPATCH(lion_target)(span, constants);
}

LionConstants lion_constants(const LionOptions& options, const UpdateScalars& scalars) {
  LionConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.decay = static_cast<float>(1 - scalars.lr * scalars.weight_decay);
  c.beta1 = static_cast<float>(options.beta1);
  c.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  c.beta2 = static_cast<float>(options.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  c.minus_lr = static_cast<float>(-scalars.lr);
  return c;
}

const Kernel kLion = kernel_of<LionArguments, &update_each<LionConstants, &lion_update>>("lion");

}  // namespace zero
#endif  // HWY_ONCE
