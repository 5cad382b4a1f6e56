#include "zero/optim/whole/lamb_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/optim/lanes/kernel_target.h"

#include "tests/optim/span_memory.h"

namespace zero {
namespace {

constexpr UpdateScalars kScalars{.step = 2, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};

// The contract of lamb_kernel.h for element i, with the compiler's own fp32 arithmetic. It also updates the moments.
float direction_plain(SpanMemory& memory, std::size_t i, const LambConstants& c) {
  float& m = memory.first_moment[i];
  float& v = memory.second_moment[i];
  const float g = memory.gradient_at(i) * c.gradient_scale;
  m = m * c.beta1 + g * c.one_minus_beta1;
  v = v * c.beta2 + (c.one_minus_beta2 * g) * g;
  return (m * c.unbias) / (std::sqrt(v) + c.eps) + c.weight_decay * memory.parameter[i];
}

std::vector<float> directions_plain(SpanMemory memory, const LambConstants& c) {
  std::vector<float> directions;
  for (std::size_t i = 0; i < memory.parameter.size(); ++i) directions.push_back(direction_plain(memory, i, c));
  return directions;
}

double sum_plain(std::vector<float> values) {
  values.resize((values.size() + 15) / 16 * 16);
  ExactSum sum;
  for (std::size_t i = 0; i < values.size(); i += 16) sum.add(block_sum_of_squares(values.data() + i));
  return sum.value();
}

// Every instruction set gives the bits of plain arithmetic.
TEST(LambKernel, EveryInstructionSetKeepsBits) {
  const auto constants = lamb_constants({}, kScalars);
  for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool low : {false, true}) {
      const SpanMemory start(1003, dtype, 2, low, 17);
      SpanMemory expected = start;
      for (std::size_t i = 0; i < expected.parameter.size(); ++i) {
        expected.parameter[i] += constants.minus_lr * direction_plain(expected, i, constants);
        if (low) expected.low_precision[i] = expected.rounded(expected.parameter[i]);
      }
      const std::vector<float> directions = directions_plain(start, constants);
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        SpanMemory actual = start;
        ExactSum parameter, direction;
        add_lamb_sums(actual.span(), constants, parameter, direction);
        EXPECT_EQ(actual, start) << "the sums change nothing";
        EXPECT_EQ(parameter.value(), sum_plain(start.parameter)) << kernel_target();
        EXPECT_EQ(direction.value(), sum_plain(directions)) << kernel_target();
        lamb_update(actual.span(), constants);
        EXPECT_EQ(actual, expected) << kernel_target() << ' ' << name_of(dtype) << " low " << low;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(LambKernel, CutsDoNotChangeSums) {
  const auto constants = lamb_constants({}, kScalars);
  SpanMemory memory(1000, DType::kFloat32, 2, false, 5);
  ExactSum parameter, direction;
  add_lamb_sums(memory.span(), constants, parameter, direction);
  for (const std::int64_t cut : {16, 160, 992}) {
    ExactSum cut_parameter, cut_direction;
    add_lamb_sums(memory.span(cut, 1000), constants, cut_parameter, cut_direction);
    add_lamb_sums(memory.span(0, cut), constants, cut_parameter, cut_direction);
    EXPECT_EQ(cut_parameter.value(), parameter.value()) << cut;
    EXPECT_EQ(cut_direction.value(), direction.value()) << cut;
  }
}

// Magnitudes beyond the range of two doubles, zeros, and values that are not finite.
TEST(LambKernel, SumsAreExactWhateverTheMagnitudes) {
  const auto constants = lamb_constants({}, kScalars);
  for (const float odd : {0.0F, 1.0F, 1e38F, std::numeric_limits<float>::infinity()}) {
    SpanMemory memory(1003, DType::kFloat32, 2, false, 5);
    for (std::size_t i = 0; i < memory.parameter.size(); ++i) {
      memory.parameter[i] = i / 16 % 3 == 0 ? 0 : std::ldexp(memory.parameter[i], static_cast<int>(i * 7 % 240) - 120);
      memory.first_moment[i] = std::ldexp(memory.first_moment[i], static_cast<int>(i * 11 % 120) - 60);
    }
    memory.parameter[700] = odd;
    memory.first_moment[800] = odd;
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      ExactSum parameter, direction;
      add_lamb_sums(memory.span(), constants, parameter, direction);
      EXPECT_EQ(parameter.value(), sum_plain(memory.parameter)) << kernel_target() << ' ' << odd;
      EXPECT_EQ(direction.value(), sum_plain(directions_plain(memory, constants))) << kernel_target() << ' ' << odd;
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// The paper's algorithm 2 in long double: one parameter, with the ratio of its own norms. A hundred steps stay within
// rounding.
TEST(LambKernel, HundredStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  const LambOptions options{.least_ratio = 0, .most_ratio = 1e9};
  SpanMemory memory(kNumel, DType::kFloat32, 2, false, 23);
  memory.first_moment.assign(kNumel, 0);
  memory.second_moment.assign(kNumel, 0);
  std::vector<long double> p(memory.parameter.begin(), memory.parameter.end());
  std::vector<long double> m(kNumel), v(kNumel), u(kNumel);
  std::mt19937 random(4);
  for (int step = 1; step <= 100; ++step) {
    memory.draw_gradient(random);
    UpdateScalars scalars{.step = step, .lr = 1e-2, .weight_decay = 0.1};
    ExactSum parameter, direction;
    add_lamb_sums(memory.span(), lamb_constants(options, scalars), parameter, direction);
    const std::array<double, 2> sums{parameter.value(), direction.value()};
    scalars.sums = sums;
    lamb_update(memory.span(), lamb_constants(options, scalars));
    long double p_squares = 0, u_squares = 0;
    for (std::size_t i = 0; i < kNumel; ++i) {
      const long double g = memory.gradient[i];
      m[i] = 0.9L * m[i] + 0.1L * g;
      v[i] = 0.999L * v[i] + 0.001L * g * g;
      const long double corrected_m = m[i] / (1 - std::pow(0.9L, step));
      const long double corrected_v = v[i] / (1 - std::pow(0.999L, step));
      u[i] = corrected_m / (std::sqrt(corrected_v) + 1e-8L) + 0.1L * p[i];
      p_squares += p[i] * p[i];
      u_squares += u[i] * u[i];
    }
    for (std::size_t i = 0; i < kNumel; ++i) p[i] -= 1e-2L * std::sqrt(p_squares / u_squares) * u[i];
  }
  for (std::size_t i = 0; i < kNumel; ++i) EXPECT_NEAR(memory.parameter[i], static_cast<double>(p[i]), 2e-5);
}

// eps times the correction of the first step is 0 as fp32. Without a gradient the direction must be 0, and not 0 / 0.
TEST(LambKernel, DenormalEpsGivesNoNan) {
  const LambConstants constants = lamb_constants({.eps = 2e-44}, {.step = 1, .lr = 1e-2});
  SpanMemory memory(33, DType::kFloat32, 2, false, 5);
  std::ranges::fill(memory.gradient, 0.0F);
  memory.first_moment.assign(33, 0);
  memory.second_moment.assign(33, 0);
  const auto before = memory.parameter;
  lamb_update(memory.span(), constants);
  EXPECT_EQ(memory.parameter, before);
}

// The ratio is 1 if a norm is zero.
TEST(LambKernel, RatioIsClampedOrOne) {
  const LambOptions options{.least_ratio = 0.5, .most_ratio = 4};
  const auto ratio = [&](double parameter, double direction) {
    const std::array<double, 2> sums{parameter, direction};
    return -lamb_constants(options, {.step = 1, .lr = 1, .sums = sums}).minus_lr;
  };
  EXPECT_EQ(ratio(4, 1), 2);
  EXPECT_EQ(ratio(100, 1), 4);
  EXPECT_EQ(ratio(1, 100), 0.5);
  EXPECT_EQ(ratio(0, 1), 1);
  EXPECT_EQ(ratio(1, 0), 1);
  EXPECT_EQ(-lamb_constants(options, {.step = 1, .lr = 1}).minus_lr, 1) << "no sums";
}

}  // namespace
}  // namespace zero
