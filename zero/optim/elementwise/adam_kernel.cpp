#include "zero/optim/elementwise/adam_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/elementwise/adam_kernel.cpp"
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/elementwise/adam-inl.h"
#include "zero/optim/lanes/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

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

const Kernel kAdam = kernel_of<AdamArguments, &update_each<AdamConstants, &adam_update>>("adam");

}  // namespace zero
#endif  // HWY_ONCE
