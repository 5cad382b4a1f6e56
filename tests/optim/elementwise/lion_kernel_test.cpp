#include "zero/optim/elementwise/lion_kernel.h"

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

float sign(float value) {
  return value > 0 ? 1.0F : (value < 0 ? -1.0F : value);
}

// The contract of lion_kernel.h, element by element, with the compiler's own fp32 arithmetic.
void lion_plain(SpanMemory& memory, const LionConstants& c) {
  for (std::size_t i = 0; i < memory.parameter.size(); ++i) {
    float& p = memory.parameter[i];
    float& m = memory.first_moment[i];
    const float g = memory.gradient_at(i) * c.gradient_scale;
    const float direction = c.beta1 * m + c.one_minus_beta1 * g;
    p = p * c.decay;
    p = p + c.minus_lr * sign(direction);
    m = c.beta2 * m + c.one_minus_beta2 * g;
    if (memory.with_low_precision) memory.low_precision[i] = memory.rounded(p);
  }
}

// Every instruction set gives the bits of plain arithmetic.
TEST(LionKernel, EveryInstructionSetKeepsBits) {
  const auto constants = lion_constants({}, kScalars);
  for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool low : {false, true}) {
      const SpanMemory start(1003, dtype, 1, low, 17);
      SpanMemory expected = start;
      lion_plain(expected, constants);
      ASSERT_NE(expected, start);
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        SpanMemory actual = start;
        lion_update(actual.span(), constants);
        EXPECT_EQ(actual, expected) << kernel_target() << ' ' << name_of(dtype) << " low " << low;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

// The paper's algorithm 2 in long double. The sign of a sum near 0 may differ, so the test omits the few elements whose
// sum is ever near 0. All others stay within rounding.
TEST(LionKernel, HundredStepsStayWithinRounding) {
  constexpr std::size_t kNumel = 257;
  SpanMemory memory(kNumel, DType::kFloat32, 1, false, 23);
  memory.first_moment.assign(kNumel, 0);
  std::vector<long double> p(memory.parameter.begin(), memory.parameter.end());
  std::vector<long double> m(kNumel);
  std::vector<bool> clear(kNumel, true);
  std::mt19937 random(4);
  for (int step = 1; step <= 100; ++step) {
    memory.draw_gradient(random);
    lion_update(memory.span(), lion_constants({}, {.step = step, .lr = 1e-2, .weight_decay = 0.1}));
    for (std::size_t i = 0; i < kNumel; ++i) {
      const long double g = memory.gradient[i];
      const long double direction = 0.9L * m[i] + 0.1L * g;
      if (std::abs(direction) < 1e-7L) clear[i] = false;
      p[i] = p[i] * (1 - 1e-2L * 0.1L) - 1e-2L * (direction > 0 ? 1 : -1);
      m[i] = 0.99L * m[i] + 0.01L * g;
    }
  }
  int compared = 0;
  for (std::size_t i = 0; i < kNumel; ++i) {
    if (!clear[i]) continue;
    ++compared;
    EXPECT_NEAR(memory.parameter[i], static_cast<double>(p[i]), 1.5e-5);
    EXPECT_NEAR(memory.first_moment[i], static_cast<double>(m[i]), 1e-7);
  }
  EXPECT_GT(compared, 200);
}

// A sum of zero gives no step.
TEST(LionKernel, StepsHaveOneLength) {
  SpanMemory memory(3, DType::kFloat32, 1, false, 3);
  memory.parameter = {1, 1, 1};
  memory.first_moment = {0, 0, 0};
  memory.gradient = {1e-30F, -1e30F, 0};
  lion_update(memory.span(), lion_constants({}, {.step = 1, .lr = 0.25}));
  EXPECT_EQ(memory.parameter, (std::vector<float>{0.75F, 1.25F, 1}));
}

TEST(LionKernel, ANaNStaysOne) {
  SpanMemory memory(20, DType::kFloat32, 1, false, 3);
  memory.gradient[5] = std::numeric_limits<float>::quiet_NaN();
  lion_update(memory.span(), lion_constants({}, kScalars));
  EXPECT_TRUE(std::isnan(memory.parameter[5]));
  EXPECT_FALSE(std::isnan(memory.parameter[6]));
}

}  // namespace
}  // namespace zero
