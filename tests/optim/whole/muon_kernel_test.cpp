#include "zero/optim/whole/muon_kernel.h"

#include <cmath>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/optim/lanes/kernel_target.h"

#include "tests/optim/span_memory.h"

namespace zero {
namespace {

constexpr UpdateScalars kScalars{
    .step = 3, .lr = 0.02, .gradient_scale = 0.37, .weight_decay = 0.1, .matrix = {.rows = 40, .columns = 10}};

float lerp_plain(float from, float to, double weight) {
  const auto factor = static_cast<float>(weight < 0.5 ? weight : weight - 1);
  return (weight < 0.5 ? from : to) + factor * (to - from);
}

// Every instruction set gives the bits of plain arithmetic.
TEST(MuonKernel, EveryInstructionSetKeepsBits) {
  for (const bool nesterov : {false, true}) {
    const MuonOptions options{.momentum = 0.95, .nesterov = nesterov};
    for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const SpanMemory start(1003, dtype, 1, /*low=*/false, 17);
      SpanMemory expected = start;
      for (std::size_t i = 0; i < expected.parameter.size(); ++i) {
        const float g = start.gradient_at(i) * static_cast<float>(kScalars.gradient_scale);
        float& m = expected.first_moment[i];
        m = lerp_plain(m, g, 1 - 0.95);
        expected.parameter[i] = nesterov ? lerp_plain(g, m, 0.95) : m;
      }
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        const auto constants = muon_direction_constants(options, kScalars);
        SpanMemory actual = start, cut = start;
        muon_direct(actual.span(), constants);
        EXPECT_EQ(actual, expected) << kernel_target() << ' ' << name_of(dtype);
        muon_direct(cut.span(0, 333), constants);
        muon_direct(cut.span(333, 1003), constants);
        EXPECT_EQ(cut, expected) << "cut, " << kernel_target();
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(MuonKernel, StepKeepsPlainArithmeticBits) {
  for (const bool low : {false, true}) {
    const SpanMemory start(517, DType::kFloat32, 0, low, 5);
    SpanMemory expected = start;
    const auto decay = static_cast<float>(1 - 0.02 * 0.1), minus_lr = static_cast<float>(-0.02 * 2.0);
    for (std::size_t i = 0; i < expected.parameter.size(); ++i) {
      expected.parameter[i] = expected.parameter[i] * decay;
      expected.parameter[i] += minus_lr * start.gradient[i];
      if (low) expected.low_precision[i] = expected.rounded(expected.parameter[i]);
    }
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      SpanMemory actual = start;
      muon_step(actual.span(), muon_step_constants({}, kScalars));
      EXPECT_EQ(actual, expected) << kernel_target();
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(MuonKernel, ScalesStepsByShapeLikeTorch) {
  const auto minus_lr = [](MuonScale scale, MatrixShape shape) {
    UpdateScalars scalars = kScalars;
    scalars.lr = 1;
    scalars.matrix = shape;
    return muon_step_constants({.scale = scale}, scalars).minus_lr;
  };
  EXPECT_FLOAT_EQ(minus_lr(MuonScale::kOriginal, {40, 10}), -2.0F);
  EXPECT_FLOAT_EQ(minus_lr(MuonScale::kOriginal, {10, 40}), -1.0F) << "never shorter";
  EXPECT_FLOAT_EQ(minus_lr(MuonScale::kMatchRmsAdamW, {25, 4}), -1.0F);
  EXPECT_FLOAT_EQ(minus_lr(MuonScale::kMatchRmsAdamW, {4, 100}), -2.0F);
}

}  // namespace
}  // namespace zero
