#include "zero/optim/elementwise/averaged_rule.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule_registry.h"

#include "tests/optim/span_memory.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::int64_t kNumel = 20'003;  // several pieces and a rest

// A span of SpanMemory with an average after its moments.
UpdateSpan with_ema(SpanMemory& memory, std::vector<float>& average, std::int64_t begin, std::int64_t end) {
  UpdateSpan span = memory.span(begin, end);
  span.states[static_cast<std::size_t>(memory.num_moments)] = average.data() + begin;
  return span;
}

// A rule that keeps no average.
class Descent final : public UpdateRule {
 public:
  std::string_view name() const override { return "descent"; }
  std::vector<StateSpec> states() const override { return {}; }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    for (std::int64_t i = 0; i < span.numel; ++i)
      span.parameter[i] -= static_cast<float>(scalars.lr) * span.gradient_at(i);
    span.write_low_precision();
  }
};

// Some rules keep the average in their own pass. For other rules it takes a separate pass.
TEST(AveragedRule, FollowsItsRulesWeights) {
  const std::vector<std::pair<OptimizerOptions, int>> rules{
      {AdamWOptions{}, 2}, {AdamOptions{}, 2}, {LambOptions{}, 2},
      {LionOptions{}, 1},  {SgdOptions{}, 0},  {OwnRuleOptions{.rule = std::make_shared<Descent>()}, 0}};
  for (const auto& [options, num_moments] : rules)
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const auto plain = make_update_rule(options);
      SCOPED_TRACE(plain->name());
      const auto averaged = with_average(make_update_rule(options), 0.9);
      SpanMemory alone(kNumel, dtype, num_moments, true, 3);
      SpanMemory memory = alone;
      std::vector<float> average(kNumel), expected = alone.parameter;
      for (int step = 1; step <= 4; ++step) {
        const UpdateScalars scalars{.step = step, .lr = 1e-2, .gradient_scale = 0.5, .weight_decay = 0.1};
        plain->update(alone.span(), scalars);
        averaged->update(with_ema(memory, average, 5'000, kNumel), scalars);  // an arbitrary cut
        averaged->update(with_ema(memory, average, 0, 5'000), scalars);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += 0.1F * (alone.parameter[i] - expected[i]);
      }
      EXPECT_EQ(memory, alone) << "an average changes no bit of the weights";
      EXPECT_EQ(average, expected);
    }
}

TEST(AveragedRule, IsOneMoreState) {
  const auto averaged = with_average(make_update_rule(LambOptions{}), 0.999);
  EXPECT_EQ(averaged->states(), (std::vector<StateSpec>{{"exp_avg"}, {"exp_avg_sq"}, {"ema"}}));
  EXPECT_EQ(averaged->name(), "lamb");
  EXPECT_EQ(averaged->num_sums(), 2);
  EXPECT_EQ(spec_of(*averaged).element_bytes(), 12);
}

TEST(AveragedRule, SecondExchangeRestoresAll) {
  const auto averaged = with_average(make_update_rule(SgdOptions{}), 0.5);
  const auto exchange = make_exchange(*averaged);
  SpanMemory memory(100, DType::kBFloat16, 0, true, 3);
  std::vector<float> average(100, 2.0F);
  memory.span().write_low_precision();
  const SpanMemory before = memory;
  exchange->update(with_ema(memory, average, 0, 100), {});
  EXPECT_EQ(memory.parameter, std::vector<float>(100, 2.0F));
  EXPECT_EQ(memory.low_precision, std::vector<std::uint16_t>(100, memory.rounded(2.0F)));
  EXPECT_EQ(average, before.parameter);
  exchange->update(with_ema(memory, average, 0, 100), {});
  EXPECT_EQ(memory, before);
}

TEST(AveragedRule, RefusesDecayOutOfRange) {
  for (const double decay : {-0.5, 1.0, 2.0})
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { with_average(make_update_rule(AdamWOptions{}), decay); }), "train.ema"));
}

}  // namespace
}  // namespace zero
