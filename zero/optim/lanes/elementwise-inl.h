// update_elements(): the pass over memory of all elementwise rules: load, scale the gradient, apply the rule, store.
//
//   struct Descent {
//     static constexpr int kStates = 0;        // fp32 states per element that it reads and writes: 0, 1 or 2
//     float minus_lr;
//     template <class D, class V>
//     HWY_INLINE void operator()(D d, V g, V& p, V&, V&) const { p = hn::Add(p, hn::Mul(hn::Set(d, minus_lr), g)); }
//   };
//   update_elements(span, gradient_scale, Descent{-0.1F});
//
// A rule is a struct of constants with a call for one vector of elements. `g` is already scaled; `p` and the states are
// read, and stored after the call. Elements that do not fill a vector use the same call with one lane, so they have the
// same bits. A kernel's .cpp includes this file once per target, so it has no #pragma once.
#if defined(ZERO_OPTIM_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_ELEMENTWISE_INL_H_
#undef ZERO_OPTIM_ELEMENTWISE_INL_H_
#else
#define ZERO_OPTIM_ELEMENTWISE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <hwy/highway.h>

#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/optim/lanes/average_lanes-inl.h"
#include "zero/optim/lanes/prefetch.h"
#include "zero/optim/rule/update_span.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Prefetch distance of each stream: 1 KiB. AdamW's divisions and roots fill the core's own look-ahead within a few
// lines. This distance made it some 4 % faster on a core with 40 GB/s; 4 KiB made it 3 % slower.
constexpr std::size_t kPrefetchNumel = 256;

// Updates elements [i, i + Lanes(d)). Low: type of the rounded copy; float: no copy.
template <class Low, class D, class G, class Rule>
HWY_INLINE void update_lanes(D d, const G* HWY_RESTRICT gradient, const UpdateSpan& span, float gradient_scale,
                             const Rule& rule, std::size_t i) {
  const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, gradient_scale));
  auto p = hn::LoadU(d, span.parameter + i);
  auto first = hn::Zero(d), second = hn::Zero(d);
  if constexpr (Rule::kStates >= 1) first = hn::LoadU(d, span.states[0] + i);
  if constexpr (Rule::kStates >= 2) second = hn::LoadU(d, span.states[1] + i);
  rule(d, g, p, first, second);
  hn::StoreU(p, d, span.parameter + i);
  if constexpr (Rule::kStates >= 1) hn::StoreU(first, d, span.states[0] + i);
  if constexpr (Rule::kStates >= 2) hn::StoreU(second, d, span.states[1] + i);
  if constexpr (!std::is_same_v<Low, float>) store_lanes(d, p, reinterpret_cast<Low*>(span.low_precision) + i);
  if (span.average != nullptr) average_lanes(d, p, span.average + i, span.average_weight);
}

template <class Low, class G, class Rule>
HWY_INLINE void update_span(const G* HWY_RESTRICT gradient, const UpdateSpan span, float gradient_scale,
                            const Rule rule) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto numel = static_cast<std::size_t>(span.numel);
  std::size_t i = 0;
  for (; i + lanes <= numel; i += lanes) {
    const std::size_t ahead = std::min(i + kPrefetchNumel, numel - 1);
    prefetch_to_l2(gradient + ahead);
    prefetch_to_l2(span.parameter + ahead);
    if constexpr (Rule::kStates >= 1) prefetch_to_l2(span.states[0] + ahead);
    if constexpr (Rule::kStates >= 2) prefetch_to_l2(span.states[1] + ahead);
    if (span.average != nullptr) prefetch_to_l2(span.average + ahead);
    update_lanes<Low>(d, gradient, span, gradient_scale, rule, i);
  }
  for (; i < numel; ++i) update_lanes<Low>(hn::CappedTag<float, 1>(), gradient, span, gradient_scale, rule, i);
}

template <class G, class Rule>
void update_elements_of(const UpdateSpan& span, float gradient_scale, const Rule& rule) {
  const auto* gradient = reinterpret_cast<const G*>(span.gradient);
  if (span.low_precision == nullptr) {
    update_span<float>(gradient, span, gradient_scale, rule);
  } else if (span.low_precision_dtype == DType::kFloat16) {
    update_span<Float16Bits>(gradient, span, gradient_scale, rule);
  } else {
    update_span<BFloat16Bits>(gradient, span, gradient_scale, rule);
  }
}

template <class Rule>
void update_elements(const UpdateSpan& span, float gradient_scale, const Rule& rule) {
  with_type_of(span.gradient_dtype,
               [&]<typename G>(std::type_identity<G>) { update_elements_of<G>(span, gradient_scale, rule); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
