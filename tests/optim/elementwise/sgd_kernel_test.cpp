#include "zero/optim/elementwise/sgd_kernel.h"

#include <limits>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/optim/lanes/kernel_target.h"

#include "tests/optim/span_memory.h"

namespace zero {
namespace {

constexpr UpdateScalars kScalars{.step = 2, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};

// The contract of sgd_kernel.h, element by element, with the compiler's own fp32 arithmetic.
void sgd_plain(SpanMemory& memory, const SgdConstants& c) {
  for (std::size_t i = 0; i < memory.parameter.size(); ++i) {
    float& p = memory.parameter[i];
    float g = memory.gradient_at(i) * c.gradient_scale;
    g = g + c.weight_decay * p;
    if (memory.num_moments == 1) {
      if (!c.first_step) g = c.momentum * memory.first_moment[i] + g;
      memory.first_moment[i] = g;
      if (c.nesterov) {
        const float current = memory.gradient_at(i) * c.gradient_scale + c.weight_decay * p;
        g = current + c.momentum * memory.first_moment[i];
      }
    }
    p = p + c.minus_lr * g;
    if (memory.with_low_precision) memory.low_precision[i] = memory.rounded(p);
  }
}

// Every instruction set gives the bits of plain arithmetic.
TEST(SgdKernel, EveryInstructionSetKeepsBits) {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool low : {false, true}) {
      for (const int num_moments : {0, 1}) {
        for (const std::int64_t step : {1, 2}) {
          const SpanMemory start(1003, dtype, num_moments, low, 17);
          UpdateScalars scalars = kScalars;
          scalars.step = step;
          const auto constants = sgd_constants({.momentum = 0.9}, scalars);
          SpanMemory expected = start;
          sgd_plain(expected, constants);
          for (const auto target : targets) {
            hwy::SetSupportedTargetsForTest(target);
            SpanMemory actual = start;
            sgd_update(actual.span(), constants);
            EXPECT_EQ(actual, expected) << kernel_target() << ' ' << name_of(dtype) << " low " << low << " moments "
                                        << num_moments << " step " << step;
          }
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

RC_GTEST_PROP(SgdKernel, CutsOfSpanChangeNoBit, ()) {
  const auto numel = *rc::gen::inRange<std::int64_t>(0, 600);
  const auto dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  const auto num_moments = *rc::gen::inRange(0, 2);
  const auto constants = sgd_constants({.momentum = 0.9}, kScalars);
  SpanMemory whole(numel, dtype, num_moments, true, 5);
  SpanMemory cut = whole;
  sgd_update(whole.span(), constants);
  for (std::int64_t begin = 0; begin < numel;) {
    const auto end = std::min(numel, begin + *rc::gen::inRange<std::int64_t>(1, 80));
    sgd_update(cut.span(begin, end), constants);
    begin = end;
  }
  RC_ASSERT(cut == whole);
}

TEST(SgdKernel, FirstStepDoesNotReadMomentum) {
  SpanMemory memory(37, DType::kFloat32, 1, false, 3);
  memory.first_moment.assign(37, std::numeric_limits<float>::quiet_NaN());
  sgd_update(memory.span(), sgd_constants({.momentum = 0.9}, {.step = 1, .lr = 0.1}));
  EXPECT_EQ(memory.first_moment, memory.gradient);
}

// A hundred steps stay within rounding of the exact rule.
TEST(SgdKernel, HundredStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  SpanMemory memory(kNumel, DType::kFloat32, 1, false, 23);
  std::vector<long double> p(memory.parameter.begin(), memory.parameter.end());
  std::vector<long double> buffer(kNumel);
  std::mt19937 random(4);
  for (int step = 1; step <= 100; ++step) {
    memory.draw_gradient(random);
    sgd_update(memory.span(), sgd_constants({.momentum = 0.9}, {.step = step, .lr = 1e-2, .weight_decay = 0.1}));
    for (std::size_t i = 0; i < kNumel; ++i) {
      const long double g = memory.gradient[i] + 0.1 * p[i];
      buffer[i] = step == 1 ? g : 0.9 * buffer[i] + g;
      p[i] -= 1e-2 * buffer[i];
    }
  }
  for (std::size_t i = 0; i < kNumel; ++i) {
    EXPECT_NEAR(memory.parameter[i], static_cast<double>(p[i]), 1.5e-5);
    EXPECT_NEAR(memory.first_moment[i], static_cast<double>(buffer[i]), 1.5e-5);
  }
}

// Nesterov momentum in torch's form: the step is g + momentum * buffer. A hundred steps stay within rounding of the
// exact rule.
TEST(SgdKernel, HundredNesterovStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  SpanMemory memory(kNumel, DType::kFloat32, 1, false, 23);
  std::vector<double> p(memory.parameter.begin(), memory.parameter.end()), buffer(kNumel);
  std::mt19937 random(4);
  for (int step = 1; step <= 100; ++step) {
    memory.draw_gradient(random);
    sgd_update(memory.span(),
               sgd_constants({.momentum = 0.9, .nesterov = true}, {.step = step, .lr = 1e-2, .weight_decay = 0.1}));
    for (std::size_t i = 0; i < kNumel; ++i) {
      const double g = memory.gradient[i] + 0.1 * p[i];
      buffer[i] = step == 1 ? g : 0.9 * buffer[i] + g;
      p[i] -= 1e-2 * (g + 0.9 * buffer[i]);
    }
  }
  for (std::size_t i = 0; i < kNumel; ++i) {
    EXPECT_NEAR(memory.parameter[i], p[i], 1.5e-5);
    EXPECT_NEAR(memory.first_moment[i], buffer[i], 1.5e-5);
  }
}

TEST(SgdKernel, NesterovLooksAMomentumAhead) {
  for (const std::int64_t step : {1, 2}) {
    UpdateScalars scalars = kScalars;
    scalars.step = step;
    const SpanMemory start(203, DType::kFloat32, 1, true, 17);
    const auto constants = sgd_constants({.momentum = 0.9, .nesterov = true}, scalars);
    SpanMemory expected = start, actual = start, heavy_ball = start;
    sgd_plain(expected, constants);
    sgd_update(actual.span(), constants);
    EXPECT_EQ(actual, expected) << "step " << step;
    sgd_update(heavy_ball.span(), sgd_constants({.momentum = 0.9}, scalars));
    EXPECT_EQ(heavy_ball.first_moment, actual.first_moment) << "the buffer is the same";
    EXPECT_NE(heavy_ball.parameter, actual.parameter);
  }
}

TEST(SgdKernel, PlainDescentWithoutMomentumAndDecay) {
  SpanMemory memory(16, DType::kFloat32, 0, false, 3);
  const SpanMemory start = memory;
  sgd_update(memory.span(), sgd_constants({}, {.step = 5, .lr = 0.5, .gradient_scale = 0.25}));
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_EQ(memory.parameter[i], start.parameter[i] - 0.5F * (0.25F * start.gradient[i]));
}

}  // namespace
}  // namespace zero
