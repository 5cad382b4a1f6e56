#include "zero/optim/adafactor_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/adafactor_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/check.h"
#include "zero/base/element_lanes-inl.h"
#include "zero/optim/block_terms-inl.h"
#include "zero/optim/for_lanes-inl.h"
#include "zero/optim/matrix_rows-inl.h"
#include "zero/optim/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements whose directions are kept until their squares are added: they stay in a core's first cache.
constexpr std::size_t kAhead = 512;  // elements of gradient and parameter that are asked for
constexpr std::size_t kChunk = kMostBlocks * kTermNumel;
constexpr std::size_t kUpdateChunk = 8192;  // and steps that wait until they are rounded, in its second one

// The smaller one, and a NaN where `x` is one.
template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, hn::Vec<D> x, float bound) {
  const auto limit = hn::Set(d, bound);
  return hn::IfThenElse(hn::Lt(limit, x), limit, x);
}

template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, hn::Vec<D> x, float bound) {
  const auto limit = hn::Set(d, bound);
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

// What makes directions of a span's gradients.
template <class G>
class Directions {
 public:
  Directions(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c)
      : span_(span),
        gradient_(reinterpret_cast<const G*>(span.gradient)),
        factors_(factors),
        c_(c),
        first_(static_cast<std::size_t>(span.first)) {
    if (!is_factored()) return;
    columns_ = columns_of(first_, first_ + static_cast<std::size_t>(span.numel), factors.col_var.size());
    column_scales_.resize(columns_.count);
    const float* col_var = factors.col_var.data() + columns_.first;
    for_lanes(0, columns_.count, [&](auto d, std::size_t i) {
      hn::StoreU(hn::Div(hn::Set(d, 1), hn::Sqrt(hn::LoadU(d, col_var + i))), d, column_scales_.data() + i);
    });
    for (const float scale : column_scales_)
      if (scale > most_column_scale_) most_column_scale_ = scale;
  }
  bool is_factored() const { return !factors_.row_var.empty(); }

  // Calls use(d, i, u, v) for elements [begin, end) of the span: directions, and of a vector its variances after the step.
  template <class Use>
  HWY_INLINE void for_each(std::size_t begin, std::size_t end, Use use) const {
    if (!is_factored()) {
      for_lanes(begin, end, [&](auto d, std::size_t i) {
        const auto g = scaled(d, i);
        const auto before = hn::LoadU(d, span_.states[0] + i), square = hn::Mul(g, g);
        const auto nearer = c_.lerp_from_square ? square : before;
        const auto v = hn::Add(nearer, hn::Mul(hn::Set(d, c_.lerp_factor), hn::Sub(square, before)));
        use(d, i, hn::Div(g, hn::Sqrt(at_least(d, v, c_.least_variance))), v);
      });
      return;
    }
    for_each_row(first_ + begin, first_ + end, factors_.col_var.size(),
                 [&](std::size_t row, std::size_t column, std::size_t at, std::size_t count) {
                   const float row_scale = 1 / std::sqrt(factors_.row_var[row] / factors_.row_mean);
                   const float* scales = column_scales_.data() + (column - columns_.first);
                   const std::size_t from = at - first_;
                   const auto scale = [&](auto d, std::size_t i) HWY_ATTR {
                     return hn::Mul(hn::Set(d, row_scale), hn::LoadU(d, scales + (i - from)));
                   };
                   if (row_scale >= 0 && row_scale * most_column_scale_ <= c_.most_scale) {  // of nearly all rows
                     for_lanes(from, from + count, [&](auto d, std::size_t i) {
                       use(d, i, hn::Mul(scaled(d, i), scale(d, i)), hn::Zero(d));
                     });
                     return;
                   }
                   for_lanes(from, from + count, [&](auto d, std::size_t i) {
                     use(d, i, hn::Mul(scaled(d, i), at_most(d, scale(d, i), c_.most_scale)), hn::Zero(d));
                   });
                 });
  }

 private:
  template <class D>
  HWY_INLINE hn::Vec<D> scaled(D d, std::size_t i) const {
    prefetch_to_l2(gradient_ + i + kAhead);
    prefetch_to_l2(span_.parameter + i + kAhead);
    return hn::Mul(load_lanes(d, gradient_ + i), hn::Set(d, c_.gradient_scale));
  }

  UpdateSpan span_;
  const G* gradient_;
  Factors factors_;
  AdafactorConstants c_;
  std::size_t first_;
  ColumnRange columns_{};
  std::vector<float> column_scales_;
  float most_column_scale_ = 0;  // of those that are numbers: a NaN stays one, with a bound and without
};

// Calls use(directions, begin, end) for parts of the span of `chunk` elements, a multiple of a block.
template <class Use>
void for_chunks(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c, std::size_t chunk,
                Use use) {
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const Directions<G> directions(span, factors, c);
    const auto numel = static_cast<std::size_t>(span.numel);
    for (std::size_t begin = 0; begin < numel; begin += chunk) use(directions, begin, std::min(begin + chunk, numel));
  });
}

void add_adafactor_sums_target(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c,
                               ExactSum& parameter, ExactSum& direction) {
  TermSums of_parameter(parameter), of_direction(direction);
  for_chunks(span, factors, c, kChunk, [&](const auto& directions, std::size_t begin, std::size_t end) {
    HWY_ALIGN float out[kChunk];
    directions.for_each(begin, end, [&](auto d, std::size_t i, auto u, auto) { hn::StoreU(u, d, out + (i - begin)); });
    add_block_squares(span.parameter + begin, end - begin, of_parameter);
    add_block_squares(out, end - begin, of_direction);
  });
}

void adafactor_target(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c) {
  for_chunks(span, factors, c, kUpdateChunk, [&](const auto& directions, std::size_t begin, std::size_t end) {
    directions.for_each(begin, end, [&](auto d, std::size_t i, auto u, auto v) {
      const auto p = hn::Mul(hn::LoadU(d, span.parameter + i), hn::Set(d, c.keep));
      hn::StoreU(hn::Add(p, hn::Mul(hn::Set(d, c.minus_step), u)), d, span.parameter + i);
      if (!directions.is_factored()) hn::StoreU(v, d, span.states[0] + i);
    });
    span.part(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)).write_low_precision();
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(add_adafactor_sums_target);
HWY_EXPORT(adafactor_target);

namespace {

// torch.lerp's formula: the end that is nearer is the one that is corrected.
float lerp(float from, float to, const AdafactorConstants& c) {
  return (c.lerp_from_square ? to : from) + c.lerp_factor * (to - from);
}

void check_span(const UpdateSpan& span) {
  ZERO_CHECK(span.first % kSumBlock == 0, "a span begins at element {}", span.first);
}

}  // namespace

AdafactorConstants adafactor_constants(const AdafactorOptions& options, const UpdateScalars& scalars) {
  const auto step = static_cast<double>(scalars.step);
  const double weight = std::pow(step, options.beta2_decay);
  return {.gradient_scale = static_cast<float>(scalars.gradient_scale),
          .lerp_from_square = weight >= 0.5,
          .lerp_factor = static_cast<float>(weight < 0.5 ? weight : weight - 1),
          .eps1 = static_cast<float>(options.eps1),
          .least_variance = static_cast<float>(options.eps1 * options.eps1),
          .most_scale = static_cast<float>(1 / options.eps1),
          .keep = static_cast<float>(1 - scalars.lr * scalars.weight_decay),
          .rho = std::min(scalars.lr, 1 / std::sqrt(step)),
          .eps2 = options.eps2,
          .clip = options.clip};
}

AdafactorConstants with_sums(AdafactorConstants constants, std::int64_t numel, double parameter, double direction) {
  const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(numel)); };
  const double alpha = std::max(constants.eps2, rms(parameter)) * constants.rho;
  constants.minus_step = static_cast<float>(-alpha / std::max(1.0, rms(direction) / constants.clip));
  return constants;
}

void update_factor(std::span<float> factor, std::span<const double> sums, std::int64_t terms,
                   const AdafactorConstants& constants) {
  for (std::size_t i = 0; i < factor.size(); ++i)
    factor[i] = lerp(factor[i], static_cast<float>(sums[i] / static_cast<double>(terms)), constants);
}

float row_mean(std::span<const float> row_var, const AdafactorConstants& constants) {
  double sum = 0;  // in rising order
  for (const float value : row_var) sum += value;
  return std::max(static_cast<float>(sum / static_cast<double>(row_var.size())), constants.eps1);
}

void add_adafactor_sums(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants,
                        ExactSum& parameter, ExactSum& direction) {
  check_span(span);
  if (span.numel > 0) HWY_DYNAMIC_DISPATCH(add_adafactor_sums_target)(span, factors, constants, parameter, direction);
}

void adafactor_update(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants) {
  check_span(span);
  if (span.numel > 0) HWY_DYNAMIC_DISPATCH(adafactor_target)(span, factors, constants);
}

}  // namespace zero
#endif  // HWY_ONCE
