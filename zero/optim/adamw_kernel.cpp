#include "zero/optim/adamw_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/adamw_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <cstddef>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/bfloat16_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

// How far ahead the four streams are asked for: 1 KiB of each. The divisions and the root fill the core's own
// look-ahead within a few lines; this distance was worth some 4 % where one core reaches 40 GB/s, and 4 KiB cost 3 %.
constexpr std::size_t kPrefetchNumel = 256;

// Elements [i, i + Lanes(d)). With a one-lane tag it is the tail: the same operations, hence the same bits.
template <bool kLowPrecision, class D, class G>
HWY_INLINE void adamw_lanes(D d, const G* HWY_RESTRICT gradient, const UpdateSpan& span, const AdamWConstants& c,
                            std::size_t i) {
  const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, c.gradient_scale));
  auto p = hn::Mul(hn::LoadU(d, span.parameter + i), hn::Set(d, c.decay));
  auto m = hn::LoadU(d, span.first_moment + i);
  auto v = hn::LoadU(d, span.second_moment + i);
  // A blend of lanes: the same condition for all, but a branch on it would go through memory.
  const auto from_gradient = hn::Ne(hn::Set(d, c.lerp_from_gradient), hn::Zero(d));
  m = hn::Add(hn::IfThenElse(from_gradient, g, m), hn::Mul(hn::Set(d, c.lerp_factor), hn::Sub(g, m)));
  v = hn::Add(hn::Mul(v, hn::Set(d, c.beta2)), hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), hn::Set(d, c.bias)), hn::Set(d, c.eps));
  p = hn::Add(p, hn::Div(hn::Mul(hn::Set(d, c.minus_step_size), m), denominator));
  hn::StoreU(p, d, span.parameter + i);
  hn::StoreU(m, d, span.first_moment + i);
  hn::StoreU(v, d, span.second_moment + i);
  if constexpr (kLowPrecision) store_bfloat16(d, p, span.low_precision + i);
}

template <bool kLowPrecision, class G>
HWY_INLINE void adamw_span(const G* HWY_RESTRICT gradient, const UpdateSpan span, const AdamWConstants c) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto numel = static_cast<std::size_t>(span.numel);
  std::size_t i = 0;
  for (; i + lanes <= numel; i += lanes) {
    const std::size_t ahead = std::min(i + kPrefetchNumel, numel - 1);
    hwy::Prefetch(gradient + ahead);
    hwy::Prefetch(span.parameter + ahead);
    hwy::Prefetch(span.first_moment + ahead);
    hwy::Prefetch(span.second_moment + ahead);
    adamw_lanes<kLowPrecision>(d, gradient, span, c, i);
  }
  for (; i < numel; ++i) adamw_lanes<kLowPrecision>(hn::CappedTag<float, 1>(), gradient, span, c, i);
}

template <class G>
void adamw_typed(const UpdateSpan& span, const AdamWConstants& c) {
  const auto* gradient = reinterpret_cast<const G*>(span.gradient);
  if (span.low_precision != nullptr) {
    adamw_span<true>(gradient, span, c);
  } else {
    adamw_span<false>(gradient, span, c);
  }
}

void adamw_target(const UpdateSpan& span, const AdamWConstants& c) {
  span.gradient_dtype == DType::kFloat32 ? adamw_typed<float>(span, c) : adamw_typed<BFloat16Bits>(span, c);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(adamw_target);

void adamw_update(const UpdateSpan& span, const AdamWConstants& constants) {
  HWY_DYNAMIC_DISPATCH(adamw_target)(span, constants);
}

AdamWConstants adamw_constants(const AdamWOptions& options, const UpdateScalars& scalars) {
  const double weight = 1 - options.beta1;
  const auto step = static_cast<double>(scalars.step);
  AdamWConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.decay = static_cast<float>(1 - scalars.lr * scalars.weight_decay);
  c.lerp_from_gradient = weight < 0.5 ? 0.0F : 1.0F;
  c.lerp_factor = static_cast<float>(weight < 0.5 ? weight : weight - 1);
  c.beta2 = static_cast<float>(options.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  c.bias = static_cast<float>(std::sqrt(1 - std::pow(options.beta2, step)));
  c.eps = static_cast<float>(options.eps);
  c.minus_step_size = static_cast<float>(-scalars.lr / (1 - std::pow(options.beta1, step)));
  return c;
}

}  // namespace zero
#endif  // HWY_ONCE
