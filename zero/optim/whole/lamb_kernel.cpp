#include "zero/optim/whole/lamb_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/whole/lamb_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <limits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/lanes/block_terms-inl.h"
#include "zero/optim/lanes/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

struct Lamb {
  static constexpr int kStates = 2;
  LambConstants c;

  // Updates the moments, and returns u.
  template <class D, class V>
  HWY_INLINE V direction(D d, V g, V p, V& m, V& v) const {
    m = hn::Add(hn::Mul(m, hn::Set(d, c.beta1)), hn::Mul(g, hn::Set(d, c.one_minus_beta1)));
    v = hn::Add(hn::Mul(v, hn::Set(d, c.beta2)), hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
    const V denominator = hn::Add(hn::Sqrt(v), hn::Set(d, c.eps));
    const V adam = hn::Div(hn::Mul(m, hn::Set(d, c.unbias)), denominator);
    return hn::Add(adam, hn::Mul(hn::Set(d, c.weight_decay), p));
  }

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& p, V& m, V& v) const {
    const V u = direction(d, g, p, m, v);
    p = hn::Add(p, hn::Mul(hn::Set(d, c.minus_lr), u));
  }
};

// Elements whose directions are kept until their squares are added; they fit into a core's first cache.
constexpr std::size_t kChunk = kMostBlocks * kTermNumel;

// Writes the directions of elements [i, i + Lanes(d)).
template <class D, class G>
HWY_INLINE void direct(D d, const G* HWY_RESTRICT gradient, const UpdateSpan& span, const Lamb& lamb, std::size_t i,
                       float* HWY_RESTRICT out) {
  const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, lamb.c.gradient_scale));
  const auto p = hn::LoadU(d, span.parameter + i);
  auto m = hn::LoadU(d, span.states[0] + i);
  auto v = hn::LoadU(d, span.states[1] + i);
  hn::StoreU(lamb.direction(d, g, p, m, v), d, out);
}

template <class G>
void add_sums_of(const UpdateSpan span, const Lamb lamb, ExactSum& parameter, ExactSum& direction) {
  const auto* HWY_RESTRICT gradient = reinterpret_cast<const G*>(span.gradient);
  const hn::CappedTag<float, kTermNumel> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto numel = static_cast<std::size_t>(span.numel);
  TermSums of_parameter(parameter), of_direction(direction);
  for (std::size_t begin = 0; begin < numel; begin += kChunk) {
    HWY_ALIGN float u[kChunk];
    const std::size_t end = std::min(begin + kChunk, numel);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const std::size_t ahead = std::min(i + kPrefetchNumel, numel - 1);
      prefetch_to_l2(gradient + ahead);
      prefetch_to_l2(span.parameter + ahead);
      prefetch_to_l2(span.states[0] + ahead);
      prefetch_to_l2(span.states[1] + ahead);
      direct(d, gradient, span, lamb, i, u + (i - begin));
    }
    for (; i < end; ++i) direct(hn::CappedTag<float, 1>(), gradient, span, lamb, i, u + (i - begin));
    add_block_squares(span.parameter + begin, end - begin, of_parameter);
    add_block_squares(u, end - begin, of_direction);
  }
}

void add_lamb_sums_target(const UpdateSpan& span, const LambConstants& c, ExactSum& parameter, ExactSum& direction) {
  with_type_of(span.gradient_dtype,
               [&]<typename G>(std::type_identity<G>) { add_sums_of<G>(span, Lamb{c}, parameter, direction); });
}

void lamb_target(const UpdateSpan& span, const LambConstants& c) {
  update_elements(span, c.gradient_scale, Lamb{c});
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(add_lamb_sums_target);
HWY_EXPORT(lamb_target);

void add_lamb_sums(const UpdateSpan& span, const LambConstants& constants, ExactSum& parameter, ExactSum& direction) {
  HWY_DYNAMIC_DISPATCH(add_lamb_sums_target)(span, constants, parameter, direction);
}

void lamb_update(const UpdateSpan& span, const LambConstants& constants) {
  HWY_DYNAMIC_DISPATCH(lamb_target)(span, constants);
}

namespace {

double trust_ratio(const LambOptions& options, std::span<const double> sums) {
  if (sums.empty() || sums[0] == 0 || sums[1] == 0) return 1;
  return std::clamp(std::sqrt(sums[0]) / std::sqrt(sums[1]), options.least_ratio, options.most_ratio);
}

}  // namespace

LambConstants lamb_constants(const LambOptions& options, const UpdateScalars& scalars) {
  const auto step = static_cast<double>(scalars.step);
  LambConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.beta1 = static_cast<float>(options.beta1);
  c.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  c.beta2 = static_cast<float>(options.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  const double bias2 = std::sqrt(1 - std::pow(options.beta2, step));
  c.unbias = static_cast<float>(bias2 / (1 - std::pow(options.beta1, step)));
  // Above 0 also if eps is denormal: without a gradient the direction is 0 / (0 + eps).
  c.eps = std::max(static_cast<float>(options.eps * bias2), std::numeric_limits<float>::min());
  c.weight_decay = static_cast<float>(scalars.weight_decay);
  c.minus_lr = static_cast<float>(-scalars.lr * trust_ratio(options, scalars.sums));
  return c;
}

namespace {

void lamb_sums_host(const LambSumsArguments& a) {
  for (std::size_t i = 0; i < a.slices.count; ++i) {
    ExactSum parameter, direction;
    add_lamb_sums(a.slices.spans[i], a.slices.constants[i], parameter, direction);
    parameter.add_to(*a.parameter[i]);
    direction.add_to(*a.direction[i]);
  }
}

}  // namespace

const Kernel kLambSums = kernel_of<LambSumsArguments, &lamb_sums_host>("lamb_sums");
const Kernel kLamb = kernel_of<LambArguments, &update_each<LambConstants, &lamb_update>>("lamb");

}  // namespace zero
#endif  // HWY_ONCE
