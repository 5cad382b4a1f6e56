#include "zero/optim/elementwise/adam_kernel.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/optim/lanes/kernel_target.h"

#include "tests/optim/span_memory.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
constexpr UpdateScalars kScalars{.step = 3, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};

// The contract of adam_kernel.h, element by element, with the compiler's own fp32 arithmetic.
void adam_plain(SpanMemory& memory, const AdamConstants& c) {
  for (std::size_t i = 0; i < memory.parameter.size(); ++i) {
    float& p = memory.parameter[i];
    float& m = memory.first_moment[i];
    float& v = memory.second_moment[i];
    float g = memory.gradient_at(i) * c.gradient_scale;
    if (c.coupled_decay != 0) g = g + c.coupled_decay * p;
    p = p * c.decay;
    const float base = c.lerp_from_gradient != 0 ? g : m;
    m = base + c.lerp_factor * (g - m);
    v = v * c.beta2 + (c.one_minus_beta2 * g) * g;
    p = p + (c.minus_step_size * m) / (std::sqrt(v) / c.bias + c.eps);
    if (memory.with_low_precision) memory.low_precision[i] = memory.rounded(p);
  }
}

class OnEveryTarget {
 public:
  // The targets that the kernels were compiled for. Sanitizer builds omit some.
  OnEveryTarget() {
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      if (kernel_target() == hwy::TargetName(target)) targets_.push_back(target);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  ~OnEveryTarget() { hwy::SetSupportedTargetsForTest(0); }
  template <typename F>
  void run(F&& body) const {
    for (const auto target : targets_) {
      hwy::SetSupportedTargetsForTest(target);
      body(kernel_target());
    }
  }

 private:
  std::vector<std::int64_t> targets_;
};

// Every instruction set gives the bits of plain arithmetic.
TEST(AdamWKernel, EveryInstructionSetKeepsBits) {
  for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool low : {false, true}) {
      for (const double beta1 : {0.9, 0.3, 0.0}) {
        const SpanMemory start(1003, dtype, 2, low, 17);
        const auto constants = adam_constants(AdamWOptions{.beta1 = beta1, .beta2 = 0.95}, kScalars);
        SpanMemory expected = start;
        adam_plain(expected, constants);
        ASSERT_NE(expected, start);
        OnEveryTarget().run([&](const std::string& name) {
          SpanMemory actual = start;
          adam_update(actual.span(), constants);
          EXPECT_EQ(actual, expected) << name << ' ' << name_of(dtype) << " low " << low << " beta1 " << beta1;
        });
      }
    }
  }
}

// Every instruction set gives the bits of plain arithmetic.
TEST(AdamKernel, EveryInstructionSetKeepsBits) {
  for (const double decay : {0.0, 0.1}) {
    UpdateScalars scalars = kScalars;
    scalars.weight_decay = decay;
    const SpanMemory start(1003, DType::kBFloat16, 2, true, 17);
    const auto constants = adam_constants(AdamOptions{}, scalars);
    SpanMemory expected = start;
    adam_plain(expected, constants);
    OnEveryTarget().run([&](const std::string& name) {
      SpanMemory actual = start;
      adam_update(actual.span(), constants);
      EXPECT_EQ(actual, expected) << name << " decay " << decay;
    });
  }
}

TEST(AdamKernel, TheDecayPassesThroughTheMoments) {
  SpanMemory memory(16, DType::kFloat32, 2, false, 3);
  memory.first_moment.assign(16, 0);
  memory.second_moment.assign(16, 0);
  memory.gradient.assign(16, 0);
  const SpanMemory start = memory;
  adam_update(memory.span(), adam_constants(AdamOptions{}, {.lr = 0.5, .weight_decay = 0.5}));
  for (std::size_t i = 0; i < 16; ++i) {
    const float g = 0.5F * start.parameter[i];
    EXPECT_EQ(memory.first_moment[i], static_cast<float>(1 - 0.9) * g);
    EXPECT_NEAR(memory.parameter[i], start.parameter[i] - std::copysign(0.5F, g), 1e-5)
        << "a step of lr, whatever g is";
  }
}

TEST(AdamWKernel, TriesBestAndScalarTargets) {
  std::vector<std::string> names;
  OnEveryTarget().run([&](const std::string& name) { names.push_back(name); });
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.front(), kernel_target());
#if defined(__x86_64__)
  EXPECT_GE(names.size(), built::kSanitized ? 2U : 3U) << "SSSE3 or better, and a fallback";
#elif defined(__aarch64__)
  EXPECT_TRUE(names.back().starts_with("NEON")) << names.back() << ", below which there is no scalar target";
#endif
}

RC_GTEST_PROP(AdamWKernel, CutsOfSpanChangeNoBit, ()) {
  const auto numel = *rc::gen::inRange<std::int64_t>(0, 600);
  const auto dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  const auto constants = adam_constants(kOptions, kScalars);
  SpanMemory whole(numel, dtype, 2, true, 5);
  SpanMemory cut = whole;
  adam_update(whole.span(), constants);
  for (std::int64_t begin = 0; begin < numel;) {  // parts of any length, so their memory has any alignment
    const auto end = std::min(numel, begin + *rc::gen::inRange<std::int64_t>(1, 80));
    adam_update(cut.span(begin, end), constants);
    begin = end;
  }
  RC_ASSERT(cut == whole);
}

TEST(AdamWKernel, LeavesNeighboursOfSpanUntouched) {
  for (std::int64_t numel = 0; numel < 40; ++numel) {
    const SpanMemory start(60, DType::kBFloat16, 2, true, 9);
    SpanMemory memory = start;
    adam_update(memory.span(7, 7 + numel), adam_constants(kOptions, kScalars));
    for (std::size_t i = 0; i < 60; ++i) {
      const bool inside = i >= 7 && i < 7 + static_cast<std::size_t>(numel);
      ASSERT_EQ(memory.parameter[i] != start.parameter[i], inside) << i;
      ASSERT_EQ(memory.first_moment[i] != start.first_moment[i], inside) << i;
      ASSERT_EQ(memory.second_moment[i] != start.second_moment[i], inside) << i;
      ASSERT_EQ(memory.low_precision[i] != start.low_precision[i], inside) << i;
    }
  }
}

// The exact rule in long double, over 100 steps: the kernel adds no bias that grows with the steps.
TEST(AdamWKernel, HundredStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  constexpr double kLr = 1e-2;
  constexpr double kDecay = 0.1;
  for (const double beta1 : {0.9, 0.4, 0.0}) {
    SpanMemory memory(kNumel, DType::kFloat32, 2, false, 23);
    memory.first_moment.assign(kNumel, 0);
    memory.second_moment.assign(kNumel, 0);
    std::vector<long double> p(memory.parameter.begin(), memory.parameter.end());
    std::vector<long double> m(kNumel);
    std::vector<long double> v(kNumel);
    const AdamWOptions options{.beta1 = beta1, .beta2 = 0.999};
    std::mt19937 random(4);
    for (int step = 1; step <= 100; ++step) {
      memory.draw_gradient(random);
      adam_update(memory.span(), adam_constants(options, {.step = step, .lr = kLr, .weight_decay = kDecay}));
      const long double bias1 = 1 - std::pow(static_cast<long double>(options.beta1), step);
      const long double bias2 = 1 - std::pow(static_cast<long double>(options.beta2), step);
      for (std::size_t i = 0; i < kNumel; ++i) {
        const long double g = memory.gradient[i];
        p[i] *= 1 - kLr * kDecay;
        m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
        v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
        p[i] -= kLr / bias1 * m[i] / (std::sqrt(v[i] / bias2) + options.eps);
      }
    }
    for (std::size_t i = 0; i < kNumel; ++i) {
      // 100 steps of up to lr, each rounded to fp32: 100 half units in the last place of a number below 4.
      EXPECT_NEAR(memory.parameter[i], static_cast<double>(p[i]), 1.5e-5) << "beta1 " << beta1;
      EXPECT_NEAR(memory.first_moment[i], static_cast<double>(m[i]), 1e-7);
      EXPECT_NEAR(memory.second_moment[i] / static_cast<double>(v[i]), 1, 5e-5);  // beta2 is fp32, as in torch
    }
  }
}

// The rule of Adam's paper in double, with the decay in the gradient. A hundred steps stay within rounding of it.
TEST(AdamKernel, CoupledDecayStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  constexpr double kLr = 1e-2, kDecay = 0.1;
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.999};
  SpanMemory memory(kNumel, DType::kFloat32, 2, false, 23);
  memory.first_moment.assign(kNumel, 0);
  memory.second_moment.assign(kNumel, 0);
  std::vector<double> p(memory.parameter.begin(), memory.parameter.end()), m(kNumel), v(kNumel);
  std::mt19937 random(4);
  for (int step = 1; step <= 100; ++step) {
    memory.draw_gradient(random);
    adam_update(memory.span(), adam_constants(options, {.step = step, .lr = kLr, .weight_decay = kDecay}));
    const double bias1 = 1 - std::pow(options.beta1, step), bias2 = 1 - std::pow(options.beta2, step);
    for (std::size_t i = 0; i < kNumel; ++i) {
      const double g = memory.gradient[i] + kDecay * p[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      p[i] -= kLr * (m[i] / bias1) / (std::sqrt(v[i] / bias2) + options.eps);
    }
  }
  for (std::size_t i = 0; i < kNumel; ++i) {
    EXPECT_NEAR(memory.parameter[i], p[i], 1.5e-5);
    EXPECT_NEAR(memory.first_moment[i], m[i], 1e-6);
    EXPECT_NEAR(memory.second_moment[i] / v[i], 1, 5e-5);
  }
}

// The copy is the rounded parameter, and a NaN stays a NaN.
TEST(AdamWKernel, LowPrecisionCopyRounds) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    SpanMemory memory(64, dtype, 2, true, 3);
    memory.gradient[5] = std::numeric_limits<float>::quiet_NaN();
    memory.low_gradient[5] = memory.rounded(memory.gradient[5]);
    memory.parameter[40] = std::numeric_limits<float>::infinity();
    memory.parameter[41] = std::numeric_limits<float>::max();
    OnEveryTarget().run([&](const std::string& name) {
      SpanMemory now = memory;
      adam_update(now.span(), adam_constants(kOptions, {.lr = 1e-3}));
      EXPECT_TRUE(std::isnan(now.parameter[5]) && std::isnan(now.widened(now.low_precision[5]))) << name;
      for (std::size_t i = 0; i < 64; ++i)
        EXPECT_EQ(now.low_precision[i], now.rounded(now.parameter[i])) << name << ' ' << i;
    });
  }
}

TEST(AdamWKernel, DecayIsDecoupledFromGradient) {
  SpanMemory memory(16, DType::kFloat32, 2, false, 3);
  const SpanMemory start = memory;
  memory.first_moment.assign(16, 0);
  memory.second_moment.assign(16, 0);
  memory.gradient.assign(16, 0);
  adam_update(memory.span(), adam_constants(kOptions, {.lr = 0.5, .weight_decay = 0.5}));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(memory.parameter[i], 0.75F * start.parameter[i]);
  EXPECT_EQ(memory.second_moment, std::vector<float>(16, 0.0F));
}

TEST(AdamWKernel, ConstantsAreRoundedOnceFromDouble) {
  const auto c = adam_constants(AdamWOptions{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                {.step = 2, .lr = 0.1, .weight_decay = 0.2});
  EXPECT_EQ(c.decay, 0.98F);
  EXPECT_EQ(c.lerp_factor, static_cast<float>(1 - 0.9));
  EXPECT_EQ(c.bias, static_cast<float>(std::sqrt(1 - 0.999 * 0.999)));
  EXPECT_EQ(c.minus_step_size, static_cast<float>(-0.1 / (1 - 0.9 * 0.9)));
}

}  // namespace
}  // namespace zero
