#include "zero/optim/whole/adafactor_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/whole/adafactor_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/error/check.h"
#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/optim/lanes/block_terms-inl.h"
#include "zero/optim/lanes/for_lanes-inl.h"
#include "zero/optim/lanes/matrix_rows-inl.h"
#include "zero/optim/lanes/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kAhead = 512;  // distance of prefetches of gradient and parameter, in elements
// Elements whose directions are kept until their squares are added; they fit into a core's first cache.
constexpr std::size_t kChunk = kMostBlocks * kTermNumel;

// Returns min(x, bound), or NaN if `x` is NaN.
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

// The scaled gradients of a span.
template <class G>
struct ScaledGradients {
  const G* gradient;
  const float* parameter;  // prefetched with the gradient
  float scale;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, std::size_t i) const {
    prefetch_to_l2(gradient + i + kAhead);
    prefetch_to_l2(parameter + i + kAhead);
    return hn::Mul(load_lanes(d, gradient + i), hn::Set(d, scale));
  }
};

// Computes directions from scaled gradients. Its loops capture copies of their inputs. Otherwise the compiler must
// assume that a vector store changes the inputs, and reloads them for each vector.
template <class G>
class Directions {
 public:
  Directions(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c)
      : gradients_{reinterpret_cast<const G*>(span.gradient), span.parameter, c.gradient_scale},
        variance_(span.states[0]),
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

  // Calls use(d, i, u, v) for elements [begin, end) of the span. u is the direction. For a vector parameter v is its
  // variance after the step. `use` is copied, so it must not change its own members.
  template <class Use>
  HWY_INLINE void for_each(std::size_t begin, std::size_t end, Use use) const {
    if (!is_factored()) return for_each_of_vector(begin, end, use);
    for_each_row(first_ + begin, first_ + end, factors_.col_var.size(),
                 [=, this](std::size_t row, std::size_t column, std::size_t at, std::size_t count) {
                   for_each_of_row(row, column, at - first_, count, use);
                 });
  }

 private:
  template <class Use>
  HWY_INLINE void for_each_of_vector(std::size_t begin, std::size_t end, Use use) const {
    for_lanes(begin, end, [use, g_of = gradients_, c = c_, variance = variance_](auto d, std::size_t i) {
      const auto g = g_of(d, i);
      const auto before = hn::LoadU(d, variance + i), square = hn::Mul(g, g);
      const auto nearer = c.lerp_from_square ? square : before;
      const auto v = hn::Add(nearer, hn::Mul(hn::Set(d, c.lerp_factor), hn::Sub(square, before)));
      use(d, i, hn::Div(g, hn::Sqrt(at_least(d, v, c.least_variance))), v);
    });
  }

  // `count` elements of a row, beginning with element `from` of the span.
  template <class Use>
  HWY_INLINE void for_each_of_row(std::size_t row, std::size_t column, std::size_t from, std::size_t count,
                                  Use use) const {
    const float row_scale = 1 / std::sqrt(factors_.row_var[row] / factors_.row_mean);
    const float* scales = column_scales_.data() + (column - columns_.first);
    const auto scale = [=](auto d, std::size_t i)
                           HWY_ATTR { return hn::Mul(hn::Set(d, row_scale), hn::LoadU(d, scales + (i - from))); };
    if (row_scale >= 0 && row_scale * most_column_scale_ <= c_.most_scale) {  // true for nearly all rows
      for_lanes(from, from + count, [use, scale, g_of = gradients_](auto d, std::size_t i) {
        use(d, i, hn::Mul(g_of(d, i), scale(d, i)), hn::Zero(d));
      });
      return;
    }
    for_lanes(from, from + count, [use, scale, g_of = gradients_, most = c_.most_scale](auto d, std::size_t i) {
      use(d, i, hn::Mul(g_of(d, i), at_most(d, scale(d, i), most)), hn::Zero(d));
    });
  }

  ScaledGradients<G> gradients_;
  const float* variance_;
  Factors factors_;
  AdafactorConstants c_;
  std::size_t first_;
  ColumnRange columns_{};
  std::vector<float> column_scales_;
  float most_column_scale_ = 0;  // without NaNs: a NaN direction is NaN with or without the bound
};

// Calls use(directions) with the directions of the span.
template <class Use>
void with_directions(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c, Use use) {
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) { use(Directions<G>(span, factors, c)); });
}

void add_adafactor_sums_target(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c,
                               ExactSum& parameter, ExactSum& direction) {
  TermSums of_parameter(parameter), of_direction(direction);
  with_directions(span, factors, c, [&](const auto& directions) {
    HWY_ALIGN float out[kChunk];
    const auto numel = static_cast<std::size_t>(span.numel);
    for (std::size_t begin = 0; begin < numel; begin += kChunk) {
      const std::size_t end = std::min(begin + kChunk, numel);
      directions.for_each(begin, end,
                          [&](auto d, std::size_t i, auto u, auto) { hn::StoreU(u, d, out + (i - begin)); });
      add_block_squares(span.parameter + begin, end - begin, of_parameter);
      add_block_squares(out, end - begin, of_direction);
    }
  });
}

// Low: type of the rounded copy; float: no copy.
template <class Low>
void update_as(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c) {
  with_directions(span, factors, c, [&](const auto& directions) {
    directions.for_each(0, static_cast<std::size_t>(span.numel),
                        [parameter = span.parameter, low = reinterpret_cast<Low*>(span.low_precision),
                         variance = directions.is_factored() ? nullptr : span.states[0], keep = c.keep,
                         minus_step = c.minus_step](auto d, std::size_t i, auto u, auto v) {
                          const auto kept = hn::Mul(hn::LoadU(d, parameter + i), hn::Set(d, keep));
                          const auto p = hn::Add(kept, hn::Mul(hn::Set(d, minus_step), u));
                          hn::StoreU(p, d, parameter + i);
                          if constexpr (!std::is_same_v<Low, float>) store_lanes(d, p, low + i);
                          if (variance != nullptr) hn::StoreU(v, d, variance + i);
                        });
  });
}

void adafactor_target(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c) {
  const DType low = span.low_precision == nullptr ? DType::kFloat32 : span.low_precision_dtype;
  with_type_of(low, [&]<typename Low>(std::type_identity<Low>) { update_as<Low>(span, factors, c); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(add_adafactor_sums_target);
HWY_EXPORT(adafactor_target);

namespace {

// torch.lerp's formula, which starts from the nearer end.
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
  double sum = 0;  // sum in ascending order
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
