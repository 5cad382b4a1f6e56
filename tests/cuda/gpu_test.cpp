// Update rules on a GPU, bit for bit against the CPU's kernels. ZERO_TEST_DEVICE names the device ("cuda"). Without it
// these tests are skipped, and tests over a fake libcudart run. `host` tries the same path on the host.
#include <vector>

#include <gtest/gtest.h>

#include "zero/optim/rule_registry.h"

#include "tests/cuda/device_arrays.h"
#include "tests/cuda/on_the_gpu.h"
#include "tests/cuda/random_span.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

class RulesOnTheGpu : public OnTheGpu {
 protected:
  void expect_bits_of_the_host(const OptimizerOptions& options) {
    const auto rule = make_update_rule(options);
    const int states = static_cast<int>(rule->states().size());
    Random random(71);
    const int trials = num_trials("ZERO_GPU_SPANS", 200, 20000);
    for (int trial = 0; trial < trials; ++trial) {
      // Some trials have more spans than one launch takes.
      const auto count = static_cast<std::size_t>(drawn(random, 20) == 0 ? 18 : 1 + drawn(random, 3));
      std::vector<RandomSpan> expected;
      for (std::size_t i = 0; i < count; ++i)
        expected.emplace_back(random, states, drawn(random, 16) == 0 ? 100'000 : 3000);
      std::vector<RandomSpan> actual = expected;
      DeviceArrays arrays(device());
      std::vector<SpanUpdate> updates;
      for (std::size_t i = 0; i < count; ++i) {
        const UpdateScalars scalars{.step = 1 + drawn(random, 50),
                                    .lr = 1e-2,
                                    .gradient_scale = drawn(random, 2) == 0 ? 1.0 : 0.37,
                                    .weight_decay = drawn(random, 2) == 0 ? 0.0 : 0.1};
        rule->update(expected[i].span(), scalars);
        if (actual[i].numel > 0) updates.push_back({arrays.bring(actual[i].span()), scalars});
      }
      rule->queue(device(), Lane::kUpdate, updates);
      arrays.take_back();
      ASSERT_TRUE(actual == expected) << rule->name() << ", trial " << trial;
    }
  }
};

TEST_F(RulesOnTheGpu, AdamVariantsMatchHostBits) {
  expect_bits_of_the_host(AdamWOptions{});
  expect_bits_of_the_host(AdamOptions{});
}

// With and without momentum.
TEST_F(RulesOnTheGpu, SgdMatchesHostBits) {
  expect_bits_of_the_host(SgdOptions{});
  expect_bits_of_the_host(SgdOptions{.momentum = 0.9});
  expect_bits_of_the_host(SgdOptions{.momentum = 0.9, .nesterov = true});
}

TEST_F(RulesOnTheGpu, LionHasThem) {
  expect_bits_of_the_host(LionOptions{});
}

TEST_F(RulesOnTheGpu, StatesInEightBitsHaveThem) {
  const auto rule = make_update_rule(AdamW8bitOptions{});
  Random random(72);
  for (int trial = 0; trial < num_trials("ZERO_GPU_SPANS", 100, 5000); ++trial) {
    const std::size_t count = 1 + random() % 5000, blocks = (count + kCodeBlock - 1) / kCodeBlock;
    auto parameter = random_floats(random, count, 0), gradient = random_floats(random, count, 0);
    std::vector<std::vector<std::uint8_t>> codes(2, std::vector<std::uint8_t>(count));
    std::vector<std::vector<float>> scales(2, std::vector<float>(blocks, 0.0F));
    const auto span_of = [&](auto& values, auto& all_codes, auto& all_scales) {
      UpdateSpan span{
          .parameter = values.data(), .gradient = gradient.bytes(), .numel = static_cast<std::int64_t>(count)};
      for (std::size_t i = 0; i < 2; ++i) span.coded[i] = {all_codes[i].data(), all_scales[i].data()};
      return span;
    };
    auto there_parameter = parameter;
    auto there_codes = codes;
    auto there_scales = scales;
    DeviceArrays arrays(device());
    const UpdateSpan there = arrays.bring(span_of(there_parameter, there_codes, there_scales));
    for (int step = 1; step <= 3; ++step) {
      const UpdateScalars scalars{.step = step, .lr = 1e-2, .weight_decay = 0.1};
      rule->update(span_of(parameter, codes, scales), scalars);
      const SpanUpdate update{there, scalars};
      rule->queue(device(), Lane::kUpdate, {&update, 1});
    }
    arrays.take_back();
    ASSERT_TRUE(same_values(parameter, there_parameter)) << trial;
    ASSERT_EQ(codes, there_codes) << trial;
    ASSERT_EQ(scales, there_scales) << trial;
  }
}

}  // namespace
}  // namespace zero
