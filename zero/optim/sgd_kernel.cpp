#include "zero/optim/sgd_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/sgd_kernel.cpp"
#include <cstddef>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/bfloat16_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

// Elements [i, i + Lanes(d)). With a one-lane tag it is the tail: the same operations, hence the same bits.
template <bool kMomentum, bool kLowPrecision, class D, class G>
HWY_INLINE void sgd_lanes(D d, const G* HWY_RESTRICT gradient, const UpdateSpan& span, const SgdConstants& c,
                          std::size_t i) {
  auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, c.gradient_scale));
  auto p = hn::LoadU(d, span.parameter + i);
  g = hn::Add(g, hn::Mul(hn::Set(d, c.weight_decay), p));
  if constexpr (kMomentum) {
    if (!c.first_step) g = hn::Add(hn::Mul(hn::LoadU(d, span.first_moment + i), hn::Set(d, c.momentum)), g);
    hn::StoreU(g, d, span.first_moment + i);
  }
  p = hn::Add(p, hn::Mul(hn::Set(d, c.minus_lr), g));
  hn::StoreU(p, d, span.parameter + i);
  if constexpr (kLowPrecision) store_bfloat16(d, p, span.low_precision + i);
}

template <bool kMomentum, bool kLowPrecision, class G>
HWY_INLINE void sgd_span(const G* HWY_RESTRICT gradient, const UpdateSpan span, const SgdConstants c) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto numel = static_cast<std::size_t>(span.numel);
  std::size_t i = 0;
  for (; i + lanes <= numel; i += lanes) sgd_lanes<kMomentum, kLowPrecision>(d, gradient, span, c, i);
  for (; i < numel; ++i) sgd_lanes<kMomentum, kLowPrecision>(hn::CappedTag<float, 1>(), gradient, span, c, i);
}

template <bool kMomentum, class G>
void sgd_typed(const UpdateSpan& span, const SgdConstants& c) {
  const auto* gradient = reinterpret_cast<const G*>(span.gradient);
  if (span.low_precision != nullptr) {
    sgd_span<kMomentum, true>(gradient, span, c);
  } else {
    sgd_span<kMomentum, false>(gradient, span, c);
  }
}

void sgd_target(const UpdateSpan& span, const SgdConstants& c) {
  const bool momentum = span.first_moment != nullptr;
  if (span.gradient_dtype == DType::kFloat32) {
    momentum ? sgd_typed<true, float>(span, c) : sgd_typed<false, float>(span, c);
  } else {
    momentum ? sgd_typed<true, BFloat16Bits>(span, c) : sgd_typed<false, BFloat16Bits>(span, c);
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
  c.first_step = scalars.step == 1;
  c.minus_lr = static_cast<float>(-scalars.lr);
  return c;
}

}  // namespace zero
#endif  // HWY_ONCE
