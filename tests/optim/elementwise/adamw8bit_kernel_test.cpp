#include "zero/optim/elementwise/adamw8bit_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/base/error/error.h"
#include "zero/optim/lanes/kernel_target.h"
#include "zero/optim/rule_registry.h"

#include "tests/optim/span_memory.h"

namespace zero {
namespace {

constexpr AdamWOptions kOptions{.beta2 = 0.99};
constexpr UpdateScalars kScalars{.step = 2, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};

// A SpanMemory whose moments are in 8-bit codes.
struct CodedMemory {
  SpanMemory plain;
  std::vector<std::uint8_t> first, second;
  std::vector<float> first_scales, second_scales;

  CodedMemory(std::int64_t numel, DType dtype, bool low, std::uint32_t seed) : plain(numel, dtype, 2, low, seed) {
    const auto size = static_cast<std::size_t>(numel), blocks = (size + kCodeBlock - 1) / kCodeBlock;
    first.resize(size);
    second.resize(size);
    first_scales.resize(blocks);
    second_scales.resize(blocks);
    encode();
  }
  CodedState first_state() { return {first.data(), first_scales.data()}; }
  CodedState second_state() { return {second.data(), second_scales.data()}; }
  void encode() {
    encode_blocks(StateCode::kSigned8, plain.first_moment, first_state());
    encode_blocks(StateCode::kUnsigned8, plain.second_moment, second_state());
  }
  void decode() {
    decode_blocks(StateCode::kSigned8, first_state(), plain.first_moment);
    decode_blocks(StateCode::kUnsigned8, second_state(), plain.second_moment);
  }
  UpdateSpan span() {
    UpdateSpan span = plain.span();
    span.states = {};
    span.coded = {first_state(), second_state()};
    return span;
  }
  UpdateSpan span(std::int64_t begin, std::int64_t end) { return span().part(begin, end - begin); }
  bool operator==(const CodedMemory&) const = default;
};

// A step equals an AdamW step on decoded moments, which are encoded again after it. This holds on every instruction
// set.
TEST(AdamW8bitKernel, MatchesAdamWOnDecodedMoments) {
  const AdamConstants constants = adamw8bit_constants(kOptions, kScalars);
  for (const auto dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool low : {false, true}) {
      CodedMemory start(1003, dtype, low, 17);
      start.decode();
      CodedMemory expected = start;
      adam_update(expected.plain.span(), constants);
      expected.encode();
      ASSERT_NE(expected, start);
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        CodedMemory actual = start;
        adamw8bit_update(actual.span(), constants);
        actual.plain.first_moment = expected.plain.first_moment;  // the kernel never writes the decoded moments
        actual.plain.second_moment = expected.plain.second_moment;
        EXPECT_EQ(actual, expected) << kernel_target() << ' ' << name_of(dtype) << " low " << low;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

// The kernel has one division less than AdamW.
TEST(AdamW8bitKernel, MatchesAdamWWithFewerDivisions) {
  for (const std::int64_t step : {1, 10, 100'000}) {
    const UpdateScalars scalars{.step = step, .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1};
    SpanMemory plain(1000, DType::kFloat32, 2, false, 5), folded = plain;
    const SpanMemory start = plain;
    adam_update(plain.span(), adam_constants(kOptions, scalars));
    adam_update(folded.span(), adamw8bit_constants(kOptions, scalars));
    EXPECT_EQ(folded.first_moment, plain.first_moment);
    EXPECT_EQ(folded.second_moment, plain.second_moment);
    for (std::size_t i = 0; i < plain.parameter.size(); ++i) {
      const float taken = std::abs(plain.parameter[i] - start.parameter[i]);
      EXPECT_NEAR(folded.parameter[i], plain.parameter[i], 5e-7F * taken + 1.3e-7F * std::abs(plain.parameter[i]))
          << "step " << step << ", element " << i;
    }
  }
}

TEST(AdamW8bitKernel, FirstStepKeepsEpsilon) {
  CodedMemory memory(256, DType::kFloat32, false, 1);
  std::ranges::fill(memory.plain.gradient, 0.0F);
  std::ranges::fill(memory.first, 0);
  std::ranges::fill(memory.second, 0);
  const AdamConstants constants = adamw8bit_constants({.beta2 = 0.999999, .eps = 1e-38}, {.step = 1, .lr = 1e-3});
  adamw8bit_update(memory.span(), constants);
  EXPECT_TRUE(std::ranges::all_of(memory.plain.parameter, [](float p) { return std::isfinite(p); }));
}

// The kernel decodes, updates and encodes whole blocks in overlapping stages. It does not overlap the last block, fewer
// than a few blocks, or any block if beta1 is at most 1/2. All cases have the same bits, on every instruction set.
TEST(AdamW8bitKernel, BlocksMatchDecodedAdamW) {
  for (const std::int64_t numel : {1, 255, 256, 257, 511, 512, 513, 768, 1024, 1280, 1600, 4096}) {
    const double beta1 = numel == 1280 ? 0.4 : 0.9;
    const AdamConstants constants = adamw8bit_constants({.beta1 = beta1, .beta2 = 0.99}, kScalars);
    CodedMemory start(numel, DType::kFloat32, false, static_cast<std::uint32_t>(numel));
    start.decode();
    CodedMemory expected = start;
    adam_update(expected.plain.span(), constants);
    expected.encode();
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      CodedMemory actual = start;
      adamw8bit_update(actual.span(), constants);
      actual.plain.first_moment = expected.plain.first_moment;  // the kernel never writes the decoded moments
      actual.plain.second_moment = expected.plain.second_moment;
      EXPECT_EQ(actual, expected) << kernel_target() << ", " << numel << " elements";
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// Some blocks have only zeros, an infinite gradient or a NaN. Their scales do not change the blocks beside them, on any
// instruction set. NaNs are compared by their bits, without the sign.
TEST(AdamW8bitKernel, OddBlocksChangeNoOthers) {
  const AdamConstants constants = adamw8bit_constants(kOptions, kScalars);
  constexpr std::int64_t kBlocks = 7;
  CodedMemory start(kBlocks * kCodeBlock, DType::kFloat32, false, 3);
  const auto fill = [&](std::int64_t block, float gradient) {
    const auto begin = static_cast<std::size_t>(block * kCodeBlock), numel = static_cast<std::size_t>(kCodeBlock);
    std::fill_n(start.plain.gradient.begin() + static_cast<std::ptrdiff_t>(begin), numel, gradient);
    std::fill_n(start.first.begin() + static_cast<std::ptrdiff_t>(begin), numel, 0);
    std::fill_n(start.second.begin() + static_cast<std::ptrdiff_t>(begin), numel, 0);
    start.first_scales[static_cast<std::size_t>(block)] = start.second_scales[static_cast<std::size_t>(block)] = 0;
  };
  fill(1, 0);
  fill(5, 0);
  start.plain.gradient[2 * kCodeBlock + 70] = std::numeric_limits<float>::infinity();
  start.plain.gradient[4 * kCodeBlock - 1] = -std::numeric_limits<float>::quiet_NaN();
  start.decode();
  CodedMemory expected = start;
  adam_update(expected.plain.span(), constants);
  expected.encode();
  const auto bits_of = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> bits;
    for (const float value : values)
      bits.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value));
    return bits;
  };
  EXPECT_TRUE(std::isnan(expected.first_scales[2]) && std::isnan(expected.second_scales[3]));
  EXPECT_EQ(expected.second_scales[5], 0);
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    CodedMemory actual = start;
    adamw8bit_update(actual.span(), constants);
    EXPECT_EQ(bits_of(actual.plain.parameter), bits_of(expected.plain.parameter)) << kernel_target();
    EXPECT_EQ(bits_of(actual.first_scales), bits_of(expected.first_scales)) << kernel_target();
    EXPECT_EQ(bits_of(actual.second_scales), bits_of(expected.second_scales)) << kernel_target();
    EXPECT_EQ(actual.first, expected.first) << kernel_target();
    EXPECT_EQ(actual.second, expected.second) << kernel_target();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(AdamW8bitKernel, CutsBetweenBlocksChangeNothing) {
  const AdamConstants constants = adamw8bit_constants(kOptions, kScalars);
  CodedMemory whole(1003, DType::kFloat32, true, 5);
  CodedMemory cut = whole;
  adamw8bit_update(whole.span(), constants);
  for (const auto& [begin, end] : {std::pair<int, int>{512, 1003}, {0, 256}, {256, 512}})
    adamw8bit_update(cut.span(begin, end), constants);
  EXPECT_EQ(cut, whole);
}

// The algorithm of Dettmers et al. in double, with our code. Both sides begin each step with the same codes, so a value
// between two codes cannot make their histories differ.
TEST(AdamW8bitKernel, HundredStepsAgreeWithDouble) {
  constexpr std::size_t kNumel = 700;
  CodedMemory memory(kNumel, DType::kFloat32, false, 23);
  memory.first.assign(kNumel, 0);
  memory.second.assign(kNumel, 0);
  memory.first_scales.assign(3, 0);
  memory.second_scales.assign(3, 0);
  const auto code_at = [](double part, int most) {
    int exponent = 0;
    const double fraction = 2 * std::frexp(part, &exponent) - 1, octaves = (exponent - 1 + fraction) / 4;
    return part == 0 ? 0.0
                     : most * std::ldexp(1 + octaves - std::floor(octaves), static_cast<int>(std::floor(octaves)));
  };
  std::mt19937 random(4);
  int compared = 0;
  for (int step = 1; step <= 100; ++step) {
    memory.plain.draw_gradient(random);
    memory.decode();
    std::vector<double> p(memory.plain.parameter.begin(), memory.plain.parameter.end()), m(kNumel), v(kNumel);
    for (std::size_t i = 0; i < kNumel; ++i) {
      const double g = memory.plain.gradient[i];
      m[i] = 0.9 * memory.plain.first_moment[i] + 0.1 * g;
      v[i] = 0.99 * memory.plain.second_moment[i] + 0.01 * g * g;
      p[i] *= 1 - 1e-2 * 0.1;
      p[i] -= 1e-2 * m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.99, step))) + 1e-8);
    }
    adamw8bit_update(memory.span(), adamw8bit_constants(kOptions, {.step = step, .lr = 1e-2, .weight_decay = 0.1}));
    for (std::size_t i = 0; i < kNumel; ++i) {
      ASSERT_NEAR(memory.plain.parameter[i], p[i], 1e-6 * (1 + std::abs(p[i]))) << "step " << step << " element " << i;
      const std::size_t begin = i / 256 * 256, end = std::min(begin + 256, kNumel);
      double most_m = 0, most_v = 0;
      for (std::size_t j = begin; j < end; ++j) {
        most_m = std::max(most_m, std::abs(m[j]));
        most_v = std::max(most_v, v[j]);
      }
      ASSERT_NEAR(memory.first_scales[i / 256], most_m, 1e-6 * most_m);
      ASSERT_NEAR(memory.second_scales[i / 256], most_v, 1e-6 * most_v);
      ASSERT_NEAR(std::abs(static_cast<std::int8_t>(memory.first[i])), code_at(std::abs(m[i]) / most_m, 127), 0.501);
      ASSERT_NEAR(memory.second[i], std::max(code_at(v[i] / most_v, 255), 1.0), 0.501);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 100 * 700);
}

TEST(AdamW8bitKernel, FirstStepIsAdamWs) {
  CodedMemory coded(300, DType::kFloat32, false, 9);
  SpanMemory plain = coded.plain;
  plain.first_moment.assign(300, 0);
  plain.second_moment.assign(300, 0);
  coded.first.assign(300, 0);
  coded.second.assign(300, 0);
  coded.first_scales.assign(2, 0);
  coded.second_scales.assign(2, 0);
  const AdamConstants constants = adamw8bit_constants(kOptions, {.step = 1, .lr = 1e-2, .weight_decay = 0.1});
  adamw8bit_update(coded.span(), constants);
  adam_update(plain.span(), constants);
  EXPECT_EQ(coded.plain.parameter, plain.parameter);
}

// An element's gradients are far below those of a large element in its block. Its second moment must not become zero,
// because the step divides by it.
TEST(AdamW8bitKernel, SmallGradientTakesNoLargeStep) {
  constexpr float kLr = 1e-2F;
  CodedMemory memory(256, DType::kFloat32, false, 2);
  memory.first.assign(256, 0);
  memory.second.assign(256, 0);
  memory.first_scales = memory.second_scales = {0};
  memory.plain.parameter.assign(256, 0);
  std::vector<float> before = memory.plain.parameter;
  for (int step = 1; step <= 50; ++step) {
    for (std::size_t i = 0; i < 256; ++i)
      memory.plain.gradient[i] = std::ldexp(step < 40 ? 1.0F : 0.0F, -static_cast<int>(i) / 8);
    adamw8bit_update(memory.span(), adamw8bit_constants(kOptions, {.step = step, .lr = kLr}));
    for (std::size_t i = 0; i < 256; ++i)
      EXPECT_LE(std::abs(memory.plain.parameter[i] - before[i]), 3 * kLr) << "step " << step << " element " << i;
    before = memory.plain.parameter;
  }
}

TEST(AdamW8bitRule, Descends) {  // to the minimum of (p - 3)^2, whose gradient is 2 (p - 3)
  const auto rule = make_update_rule(AdamW8bitOptions{});
  CodedMemory memory(300, DType::kFloat32, false, 1);
  memory.plain.first_moment.assign(300, 0);
  memory.plain.second_moment.assign(300, 0);
  memory.encode();
  for (int step = 1; step <= 1000; ++step) {
    for (std::size_t i = 0; i < 300; ++i) memory.plain.gradient[i] = 2 * (memory.plain.parameter[i] - 3);
    rule->update(memory.span(), {.step = step, .lr = 0.02 * std::min(1.0, (1001 - step) / 300.0)});
  }
  for (const float p : memory.plain.parameter) EXPECT_NEAR(p, 3, 3e-2);
}

TEST(AdamW8bitRule, SpanWithoutCodesIsOurBug) {
  const auto rule = make_update_rule(AdamW8bitOptions{});
  CodedMemory memory(8, DType::kFloat32, false, 1);
  EXPECT_NO_THROW(rule->update(memory.span(), {.lr = 1e-3}));
  EXPECT_THROW(rule->update(memory.plain.span(), {}), InternalError) << "moments in fp32";
  UpdateSpan no_scales = memory.span();
  no_scales.coded[1].scales = nullptr;
  EXPECT_THROW(rule->update(no_scales, {}), InternalError);
  EXPECT_NO_THROW(rule->update({}, {})) << "a rank whose shard is empty";
}

// Each block also has two scales.
TEST(AdamW8bitRule, TakesTwoBytesPerElement) {
  const auto rule = make_update_rule(AdamW8bitOptions{});
  const OptimizerSpec spec = spec_of(*rule);
  EXPECT_EQ(rule->name(), "adamw8bit");
  EXPECT_EQ(spec.value_bytes(), 2);
  EXPECT_EQ(spec.scale_bytes(1024), 4 * 2 * 4);
  EXPECT_EQ(spec.element_bytes(), 2 + 8 / 256.0);
  EXPECT_EQ(spec.grain(), 256);
  EXPECT_EQ(spec_of(*make_update_rule(AdamWOptions{})).grain(), 1);
  EXPECT_EQ(spec_of(*make_update_rule(AdamWOptions{})).scale_bytes(1024), 0);
}

}  // namespace
}  // namespace zero
