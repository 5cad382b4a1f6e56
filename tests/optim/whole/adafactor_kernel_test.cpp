#include "zero/optim/whole/adafactor_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/optim/lanes/kernel_target.h"
#include "zero/optim/whole/factor_squares.h"

namespace zero {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t numel_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The same values as in tests/optim/adafactor_numbers.py. Step 0: the parameters; later steps: gradients.
std::vector<float> filled(std::int64_t numel, int step, float scale) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i)
    values.push_back(static_cast<float>((i * 37 + step * 11) % 17 - 8) / 16.0F * scale);
  return values;
}

// Elements [begin, end) of a parameter.
UpdateSpan span_of(std::vector<float>& parameter, const std::vector<float>& gradient, std::int64_t begin,
                   std::int64_t end) {
  UpdateSpan span;
  span.parameter = parameter.data() + begin;
  span.gradient = reinterpret_cast<const std::byte*>(gradient.data() + begin);
  span.numel = end - begin;
  span.first = begin;
  return span;
}

std::vector<double> values_of(const std::vector<ExactSum>& sums) {
  std::vector<double> values;
  for (const ExactSum& sum : sums) values.push_back(sum.value());
  return values;
}

// A parameter with its states, and one step over any cut of it.
struct Subject {
  std::vector<float> parameter, variance, row_var, col_var;
  double of_parameter = 0, of_direction = 0;  // sums of squares of the last step
  bool operator==(const Subject&) const = default;

  explicit Subject(const Shape& dims, std::vector<float> values) : parameter(std::move(values)) {
    if (dims.size() < 2) {
      variance.resize(parameter.size());
    } else {
      row_var.resize(static_cast<std::size_t>(dims[0]));
      col_var.resize(parameter.size() / row_var.size());
    }
  }
  std::int64_t numel() const { return std::ssize(parameter); }

  // `cuts`: the ends of the parts. The last parts are updated first, because another rank may do so.
  void step(const std::vector<float>& gradient, const AdafactorOptions& options, const UpdateScalars& scalars,
            std::vector<std::int64_t> cuts = {}) {
    cuts.push_back(numel());
    std::vector<UpdateSpan> parts;
    std::int64_t begin = 0;
    for (const std::int64_t end : cuts) {
      UpdateSpan span = span_of(parameter, gradient, begin, end);
      if (!variance.empty()) span.states[0] = variance.data() + begin;
      parts.insert(parts.begin(), span);
      begin = end;
    }
    const AdafactorConstants constants = adafactor_constants(options, scalars);
    Factors factors;
    if (!row_var.empty()) {
      update_factors(parts, constants);
      factors = {row_var, col_var, row_mean(row_var, constants)};
    }
    ExactSum p, u;
    for (const UpdateSpan& part : parts) {
      ExactSum own_p, own_u;
      add_adafactor_sums(part, factors, constants, own_p, own_u);
      p.add(own_p);
      u.add(own_u);
    }
    of_parameter = p.value();
    of_direction = u.value();
    for (const UpdateSpan& part : parts)
      adafactor_update(part, factors, with_sums(constants, numel(), of_parameter, of_direction));
  }

  void update_factors(const std::vector<UpdateSpan>& parts, const AdafactorConstants& constants) {
    std::vector<ExactSum> rows(row_var.size()), columns(col_var.size());
    std::mutex lock;
    for (const UpdateSpan& part : parts) {
      std::vector<ExactSum> own_rows(rows.size()), own_columns(columns.size());
      add_factor_sums(part, constants.gradient_scale, own_rows, own_columns, lock);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].add(own_rows[i]);
      for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(own_columns[i]);
    }
    update_factor(row_var, values_of(rows), std::ssize(columns), constants);
    update_factor(col_var, values_of(columns), std::ssize(rows), constants);
  }
};

// The paper's formulas in float64, element by element. columns > 1: a matrix; columns 1: a vector.
class Paper {
 public:
  Paper(std::int64_t rows, std::int64_t columns, const std::vector<float>& parameter)
      : p(parameter.begin(), parameter.end()),
        rows_(static_cast<std::size_t>(rows)),
        columns_(static_cast<std::size_t>(columns)),
        r_(rows_),
        c_(columns_),
        v_(p.size()) {}

  void step(const std::vector<float>& gradient, int t, double lr, double decay, double clip) {
    const double beta2 = 1 - std::pow(t, -0.8);
    const double alpha = std::max(1e-3, rms(p)) * std::min(lr, 1 / std::sqrt(t));
    std::vector<double> row_sums(rows_), column_sums(columns_), u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double square = static_cast<double>(gradient[i]) * gradient[i];
      row_sums[i / columns_] += square;
      column_sums[i % columns_] += square;
      v_[i] = beta2 * v_[i] + (1 - beta2) * square;
    }
    for (std::size_t i = 0; i < rows_; ++i) r_[i] = beta2 * r_[i] + (1 - beta2) * row_sums[i];
    for (std::size_t j = 0; j < columns_; ++j) c_[j] = beta2 * c_[j] + (1 - beta2) * column_sums[j];
    const double all = std::accumulate(r_.begin(), r_.end(), 0.0);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double v = columns_ == 1 ? v_[i] : r_[i / columns_] * c_[i % columns_] / all;
      u[i] = gradient[i] / std::sqrt(v);
    }
    const double shorter = std::max(1.0, rms(u) / clip);
    clipped_ = clipped_ || shorter > 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = p[i] * (1 - lr * decay) - alpha * u[i] / shorter;
  }
  bool clipped() const { return clipped_; }

  std::vector<double> p;

 private:
  static double rms(const std::vector<double>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
                     static_cast<double>(values.size()));
  }

  std::size_t rows_, columns_;
  std::vector<double> r_, c_, v_;
  bool clipped_ = false;
};

std::vector<float> drawn(std::int64_t numel, std::uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(static_cast<std::size_t>(numel));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(AdafactorKernel, TakesThePapersSteps) {
  struct Case {
    float rms;  // of the parameter: below or above eps2
    double lr;  // above or below 1 / sqrt(t) from some step on
    double clip;
  };
  for (const Case& with : {Case{0.5F, 0.2, 1}, Case{1e-5F, 0.2, 1}, Case{0.5F, 0.5, 0.5}}) {
    for (const Shape& dims : {Shape{13, 7}, Shape{8, 64}, Shape{33}}) {
      const std::int64_t numel = numel_of(dims);
      Subject subject(dims, drawn(numel, 1, with.rms));
      Paper paper(dims[0], dims.size() > 1 ? dims[1] : 1, subject.parameter);
      for (int t = 1; t <= 20; ++t) {
        const std::vector<float> gradient = drawn(numel, 100U + static_cast<std::uint32_t>(t), t == 10 ? 3.0F : 0.1F);
        subject.step(gradient, {.clip = with.clip}, {.step = t, .lr = with.lr, .weight_decay = 0.1});
        paper.step(gradient, t, with.lr, 0.1, with.clip);
      }
      EXPECT_TRUE(paper.clipped());
      for (std::size_t i = 0; i < subject.parameter.size(); ++i)
        EXPECT_NEAR(subject.parameter[i], paper.p[i], 2e-6 * std::max(with.rms, 1e-3F)) << numel << " at " << i;
    }
  }
}

// Numbers printed by tests/optim/adafactor_numbers.py with torch 2.11.
TEST(AdafactorKernel, TakesTorchsSteps) {
  struct Case {
    Shape shape;
    double weight_decay;
    std::vector<double> expected;
  };
  const std::vector<Case> cases{
      {{3, 5},
       0,
       {-0.53540802, -0.331860006, -0.144475162, 0.0484699197, 0.248267174, 0.449977726, -0.415079951, -0.270811617,
        -0.0431436002, 0.113182217, 0.370144546, 0.518722653, -0.357413739, -0.214463457, 0.0257685184}},
      {{4, 6}, 0.25, {-0.466508865, -0.291034758, -0.118341662,  0.0741666108, 0.268685907, 0.436237872,
                      -0.385823131, -0.251735926, -0.0349329524, 0.114557385,  0.34431681,  0.474285126,
                      -0.348334849, -0.211897701, 0.00536202779, 0.154923588,  0.376048386, -0.485661894,
                      -0.310536206, -0.136984259, 0.0458592586,  0.236861452,  0.407409668, -0.405584186}},
      {{5}, 0, {-0.506106913, -0.316432208, -0.133899152, 0.0586903989, 0.265626758}}};
  for (const Case& wanted : cases) {
    const std::int64_t numel = numel_of(wanted.shape);
    Subject subject(wanted.shape, filled(numel, 0, 1));
    for (int step = 1; step <= 5; ++step)
      subject.step(filled(numel, step, std::exp2f(static_cast<float>(step) - 3)), {},
                   {.step = step, .lr = 0.05, .weight_decay = wanted.weight_decay});
    ASSERT_EQ(wanted.expected.size(), subject.parameter.size());
    for (std::size_t i = 0; i < subject.parameter.size(); ++i)
      EXPECT_NEAR(subject.parameter[i], wanted.expected[i], 3e-7) << wanted.shape.size() << " dimensions, at " << i;
  }
}

TEST(AdafactorKernel, CutsChangeNoBit) {
  std::mt19937 random(5);
  for (const Shape& dims : {Shape{37, 29}, Shape{3, 500}, Shape{400, 2}, Shape{4, 5, 6, 7}, Shape{777}}) {
    const std::int64_t numel = numel_of(dims);
    Subject whole(dims, drawn(numel, 2, 1)), cut = whole;
    for (int t = 1; t <= 6; ++t) {
      std::vector<std::int64_t> cuts;
      for (std::int64_t at = kSumBlock; at < numel; at += kSumBlock)
        if (random() % 3 == 0) cuts.push_back(at);
      ASSERT_FALSE(cuts.empty());
      const std::vector<float> gradient = drawn(numel, 10U + static_cast<std::uint32_t>(t), 1e-3F);
      const UpdateScalars scalars{.step = t, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};
      whole.step(gradient, {}, scalars);
      cut.step(gradient, {}, scalars, cuts);
      EXPECT_EQ(whole.row_var, cut.row_var);
      EXPECT_EQ(whole.col_var, cut.col_var);
      EXPECT_EQ(whole.variance, cut.variance);
      EXPECT_EQ(whole.of_parameter, cut.of_parameter);
      EXPECT_EQ(whole.of_direction, cut.of_direction);
      EXPECT_EQ(whole.parameter, cut.parameter);
    }
  }
}

// The formulas of adafactor_kernel.h with the compiler's own fp32 arithmetic: a matrix's parameters after the step. For
// a vector `after` has the updated variance.
std::vector<float> updated_plain(const Subject& before, const Subject& after, const std::vector<float>& gradient,
                                 const AdafactorConstants& c) {
  std::vector<float> parameter = before.parameter;
  const float mean = before.row_var.empty() ? 0 : row_mean(after.row_var, c);
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const float g = gradient[i] * c.gradient_scale;
    float u = 0;
    if (before.row_var.empty()) {
      u = g / std::sqrt(std::max(after.variance[i], c.least_variance));
    } else {
      const std::size_t row = i / before.col_var.size(), column = i % before.col_var.size();
      const float row_scale = 1 / std::sqrt(after.row_var[row] / mean);
      u = g * std::min(row_scale * (1 / std::sqrt(after.col_var[column])), c.most_scale);
    }
    const float kept = parameter[i] * c.keep, step = c.minus_step * u;
    parameter[i] = kept + step;
  }
  return parameter;
}

// Every instruction set gives the bits of plain arithmetic.
TEST(AdafactorKernel, EveryInstructionSetKeepsBits) {
  for (const Shape& dims : {Shape{37, 29}, Shape{20, 64}, Shape{3, 700}, Shape{777}}) {
    const std::int64_t numel = numel_of(dims);
    const std::vector<float> gradient = drawn(numel, 10, 0.1F);
    const UpdateScalars scalars{.step = 3, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};
    std::optional<Subject> first;
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      const Subject before(dims, drawn(numel, 2, 1));
      Subject after = before;
      after.step(gradient, {}, scalars);
      const AdafactorConstants constants =
          with_sums(adafactor_constants({}, scalars), numel, after.of_parameter, after.of_direction);
      EXPECT_EQ(after.parameter, updated_plain(before, after, gradient, constants)) << kernel_target();
      if (!first) first = after;
      EXPECT_EQ(after, *first) << kernel_target();
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(AdafactorKernel, ScalesGradientsBeforeAnythingElse) {
  constexpr AdafactorOptions kUnclipped{.clip = 100};  // a clipped step does not depend on the gradient's length
  for (const Shape& dims : {Shape{6, 8}, Shape{48}}) {
    const std::vector<float> gradient = drawn(48, 8, 1);
    std::vector<float> quarter = gradient;
    for (float& g : quarter) g *= 0.25F;
    Subject scaled(dims, drawn(48, 9, 1)), given = scaled;
    for (int t = 1; t <= 3; ++t) {
      scaled.step(gradient, kUnclipped, {.step = t, .lr = 1e-2, .gradient_scale = 0.25});
      given.step(quarter, kUnclipped, {.step = t, .lr = 1e-2});
    }
    EXPECT_EQ(scaled.row_var, given.row_var);
    EXPECT_EQ(scaled.col_var, given.col_var);
    EXPECT_EQ(scaled.variance, given.variance);
    EXPECT_EQ(scaled.parameter, given.parameter);
  }
}

TEST(AdafactorKernel, GradientsOfZeroMoveNothing) {
  for (const Shape& dims : {Shape{5, 9}, Shape{45}}) {
    Subject subject(dims, drawn(45, 3, 1));
    const std::vector<float> before = subject.parameter;
    subject.step(std::vector<float>(45), {}, {.step = 1, .lr = 1e-2});
    EXPECT_EQ(subject.parameter, before);
  }
}

TEST(AdafactorKernel, WritesRoundedCopyInAnyType) {
  std::vector<float> parameter = drawn(32, 4, 1), wide(32);
  std::vector<BFloat16Bits> gradient(32), rounded(32);
  const std::vector<float> values = drawn(32, 5, 1);
  for (std::size_t i = 0; i < 32; ++i) {
    gradient[i] = to_bfloat16(values[i]);
    wide[i] = to_float(gradient[i]);
  }
  Subject expected({4, 8}, parameter);
  expected.step(wide, {}, {.step = 1, .lr = 1e-2});
  const AdafactorConstants constants = adafactor_constants({}, {.step = 1, .lr = 1e-2});
  const Factors factors{expected.row_var, expected.col_var, row_mean(expected.row_var, constants)};
  const UpdateSpan span{.parameter = parameter.data(),
                        .gradient = reinterpret_cast<const std::byte*>(gradient.data()),
                        .gradient_dtype = DType::kBFloat16,
                        .low_precision = reinterpret_cast<std::byte*>(rounded.data()),
                        .numel = 32};
  adafactor_update(span, factors, with_sums(constants, 32, expected.of_parameter, expected.of_direction));
  EXPECT_EQ(parameter, expected.parameter);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(rounded[i], to_bfloat16(parameter[i])) << i;
}

// Every third number has an unusual rounding: NaNs, infinities, subnormals of fp32 and fp16, ties, and values outside
// the range of one type.
std::vector<float> of_every_kind(std::int64_t numel) {
  constexpr std::uint32_t kBits[] = {0x7f800001U, 0xffc12345U, 0x7fffffffU, 0x7f800000U, 0xff800000U, 0x00000001U,
                                     0x807fffffU, 0x33000000U, 0xb3800001U, 0x387fe000U, 0x477ff000U, 0x477fefffU,
                                     0x7f7fffffU, 0x80000000U, 0x3f808000U, 0x3f818000U, 0x3f801000U, 0x3f803000U};
  std::vector<float> values = drawn(numel, 4, 1);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = std::bit_cast<float>(kBits[i / 3 % std::size(kBits)]);
  return values;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// The parameter after a step over all elements but the first and the last, so without alignment. `low`: receives the
// low-precision copy, unless null.
std::vector<float> stepped(const Shape& dims, DType gradient_dtype, std::vector<std::uint16_t>* low, DType low_dtype) {
  const std::int64_t numel = numel_of(dims);
  std::vector<float> parameter = of_every_kind(numel + 2), gradient = drawn(numel + 2, 5, 0.1F);
  for (std::size_t i = 0; i < gradient.size(); i += 3) gradient[i] = 0;  // so these parameters keep their values
  std::vector<float> variance(gradient.size(), 0.01F), held(gradient.size());
  auto* const there = reinterpret_cast<std::byte*>(held.data());
  convert_elements(reinterpret_cast<const std::byte*>(gradient.data()), DType::kFloat32, there, gradient_dtype,
                   std::ssize(gradient));
  UpdateSpan span{.parameter = parameter.data() + 1,
                  .gradient = there + size_of(gradient_dtype),
                  .gradient_dtype = gradient_dtype,
                  .low_precision = low == nullptr ? nullptr : reinterpret_cast<std::byte*>(low->data() + 1),
                  .low_precision_dtype = low_dtype,
                  .numel = numel};
  const AdafactorConstants constants = with_sums(adafactor_constants({}, {.step = 2, .lr = 1e-2}), numel, 1, 1);
  if (dims.size() < 2) {
    span.states[0] = variance.data() + 1;
    adafactor_update(span, {}, constants);
  } else {
    std::vector<float> row_var(static_cast<std::size_t>(dims[0]), 0.5F),
        col_var(static_cast<std::size_t>(dims[1]), 0.01F);
    row_var[1] = 1e-30F;  // its scale reaches the bound
    adafactor_update(span, {row_var, col_var, 0.5F}, constants);
  }
  return parameter;
}

// Vector code rounds the copy as it rounds a single element.
TEST(AdafactorKernel, InstructionSetsRoundCopyAsElements) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const Shape& dims : {Shape{37, 29}, Shape{2, 7}, Shape{3, 700}, Shape{777}, Shape{9000}})
      for (const DType gradient_dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
        for (const DType low_dtype : {DType::kBFloat16, DType::kFloat16}) {
          const auto numel = static_cast<std::size_t>(numel_of(dims));
          std::vector<std::uint16_t> low(numel + 2, 0x5a5a), expected = low;
          const std::vector<float> parameter = stepped(dims, gradient_dtype, &low, low_dtype);
          for (std::size_t i = 1; i <= numel; ++i)
            expected[i] = low_dtype == DType::kFloat16 ? static_cast<std::uint16_t>(to_float16(parameter[i]))
                                                       : static_cast<std::uint16_t>(to_bfloat16(parameter[i]));
          EXPECT_EQ(low, expected) << kernel_target() << ", " << numel << ' ' << name_of(low_dtype);
          EXPECT_EQ(bits_of(parameter), bits_of(stepped(dims, gradient_dtype, nullptr, low_dtype)))
              << kernel_target() << ", a copy changes no bit of the parameter";
        }
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace
}  // namespace zero
