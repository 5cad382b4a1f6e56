#include "zero/optim/rule/update_rule.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/base/error/error.h"
#include "zero/base/process/parallel.h"
#include "zero/device/host_device.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/lanes/kernel_target.h"
#include "zero/optim/outer_step.h"
#include "zero/optim/rule_registry.h"

#include "tests/optim/span_memory.h"
#include "tests/support/message_of.h"
#include "tests/support/orthogonal_rule.h"

namespace zero {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The key in the refusal of these options, whose message must have `value`; "" if they are valid.
std::string refused_key(const OptimizerOptions& options, const std::string& value) {
  try {
    make_update_rule(options);
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(error.key() + " = " + value + ": "), std::string::npos) << message;
    EXPECT_NE(message.find("\n  use "), std::string::npos) << message;
    return error.key();
  }
  return "";
}

// The rules with fp32 states of elements. All other rules have tests of their own.
std::vector<OptimizerOptions> every_rule() {
  std::vector<OptimizerOptions> rules{SgdOptions{.momentum = 0.9}, SgdOptions{.momentum = 0.9, .nesterov = true}};
  for (const OptimizerOptions& options : default_options()) {
    const auto rule = make_update_rule(options);
    const bool of_matrices = rule->matrices() != nullptr || rule->factors() != nullptr;
    if (!of_matrices && spec_of(*rule).grain() == 1) rules.push_back(options);
  }
  return rules;
}

int num_states(const UpdateRule& rule) {
  return static_cast<int>(rule.states().size());
}

// Queued spans have the bits of single updates.
TEST(UpdateRule, QueuedSpansMatchSingleUpdates) {
  constexpr int kSpans = 35;  // more than two kernels
  std::vector<std::unique_ptr<UpdateRule>> rules;
  for (const OptimizerOptions& options : every_rule()) rules.push_back(make_update_rule(options));
  for (const auto& rule : rules) {
    std::vector<SpanMemory> one_by_one;
    for (std::uint32_t i = 0; i < kSpans; ++i)
      one_by_one.emplace_back(1 + 7 * i, i % 2 == 0 ? DType::kFloat32 : DType::kBFloat16, num_states(*rule), i % 3 == 0,
                              i);
    std::vector<SpanMemory> together = one_by_one;
    const std::vector<double> sums(static_cast<std::size_t>(rule->num_sums()), 2.0);
    std::vector<SpanUpdate> updates;
    for (std::size_t i = 0; i < kSpans; ++i) {
      const bool is_matrix = rule->matrices() != nullptr && i % 4 == 1;
      const UpdateScalars scalars{.step = static_cast<std::int64_t>(i + 1),
                                  .lr = 1e-2 * static_cast<double>(i),
                                  .gradient_scale = 0.5,
                                  .weight_decay = i % 2 == 0 ? 0.1 : 0,
                                  .sums = sums,
                                  .matrix = is_matrix ? MatrixShape{40, 10} : MatrixShape{}};
      rule->update(one_by_one[i].span(), scalars);
      updates.push_back({together[i].span(), scalars});
    }
    rule->queue(HostDevice::instance(), Lane::kUpdate, updates);
    EXPECT_TRUE(together == one_by_one) << rule->name();
  }
}

TEST(UpdateRule, RefusesBadAdamwOptionsByKey) {
  EXPECT_EQ(refused_key(AdamWOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdamWOptions{.lr = kNaN}, "nan"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdamWOptions{.lr = kInfinity}, "inf"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdamWOptions{.lr = 1e39}, "1e+39"), "optimizer.lr") << "infinite as fp32";
  EXPECT_EQ(refused_key(AdamWOptions{.beta1 = 1}, "[1, 0.999]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamWOptions{.beta1 = -0.1}, "[-0.1, 0.999]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamWOptions{.beta2 = kNaN}, "[0.9, nan]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamWOptions{.beta2 = 1.5}, "[0.9, 1.5]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamWOptions{.eps = 0}, "0"), "optimizer.eps");
  EXPECT_EQ(refused_key(AdamWOptions{.eps = 1e-60}, "1e-60"), "optimizer.eps") << "0 as fp32";
  EXPECT_EQ(refused_key(AdamWOptions{.eps = kInfinity}, "inf"), "optimizer.eps");
  EXPECT_EQ(refused_key(AdamWOptions{.weight_decay = -0.1}, "-0.1"), "optimizer.weight_decay");
  EXPECT_EQ(refused_key(AdamWOptions{.weight_decay = kNaN}, "nan"), "optimizer.weight_decay");
}

TEST(UpdateRule, RefusesBadMuonOptionsByKey) {
  EXPECT_EQ(refused_key(MuonOptions{}, ""), "");
  EXPECT_EQ(refused_key(MuonOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(MuonOptions{.lr = 0}, ""), "") << "AdamW's is the same";
  EXPECT_EQ(refused_key(MuonOptions{.lr = 0, .adamw = {.lr = 1e-3}}, "0"), "optimizer.lr");
  EXPECT_EQ(refused_key(MuonOptions{.momentum = 1}, "1"), "optimizer.momentum");
  EXPECT_EQ(refused_key(MuonOptions{.steps = 0}, "0"), "optimizer.steps");
  EXPECT_EQ(refused_key(MuonOptions{.weight_decay = kNaN}, "nan"), "optimizer.weight_decay");
  EXPECT_EQ(refused_key(MuonOptions{.adamw = {.lr = -1}}, "-1"), "optimizer.adamw_lr");
  EXPECT_EQ(refused_key(MuonOptions{.adamw = {.beta1 = 1}}, "[1, 0.999]"), "optimizer.betas");
  EXPECT_EQ(refused_key(MuonOptions{.adamw = {.eps = 0}}, "0"), "optimizer.eps");
}

TEST(UpdateRule, RefusesBadAdafactorOptionsByKey) {
  EXPECT_EQ(refused_key(AdafactorOptions{}, ""), "");
  EXPECT_EQ(refused_key(AdafactorOptions{.lr = kNaN}, "nan"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdafactorOptions{.beta2_decay = 0.5}, "0.5"), "optimizer.beta2_decay");
  EXPECT_EQ(refused_key(AdafactorOptions{.eps1 = 0}, "0"), "optimizer.eps1");
  EXPECT_EQ(refused_key(AdafactorOptions{.eps2 = -1}, "-1"), "optimizer.eps2");
  EXPECT_EQ(refused_key(AdafactorOptions{.clip = 0}, "0"), "optimizer.clip");
  EXPECT_EQ(refused_key(AdafactorOptions{.weight_decay = kInfinity}, "inf"), "optimizer.weight_decay");
}

TEST(UpdateRule, RefusesBadSgdOptionsByKey) {
  EXPECT_EQ(refused_key(SgdOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(SgdOptions{.momentum = 1}, "1"), "optimizer.momentum");
  EXPECT_EQ(refused_key(SgdOptions{.momentum = -0.5}, "-0.5"), "optimizer.momentum");
  EXPECT_EQ(refused_key(SgdOptions{.momentum = kNaN}, "nan"), "optimizer.momentum");
  EXPECT_EQ(refused_key(SgdOptions{.weight_decay = kInfinity}, "inf"), "optimizer.weight_decay");
}

// The error names the key.
TEST(UpdateRule, RefusesBadAdamAndLionOptions) {
  EXPECT_EQ(refused_key(AdamOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdamOptions{.beta1 = 1}, "[1, 0.999]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamOptions{.eps = 0}, "0"), "optimizer.eps");
  EXPECT_EQ(refused_key(LionOptions{.weight_decay = kNaN}, "nan"), "optimizer.weight_decay");
  EXPECT_EQ(refused_key(LionOptions{.beta2 = 1}, "[0.9, 1]"), "optimizer.betas");
  EXPECT_EQ(refused_key(SgdOptions{.nesterov = true}, "true"), "optimizer.nesterov");
}

TEST(UpdateRule, RefusesBadLambOptionsByKey) {
  EXPECT_EQ(refused_key(LambOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(LambOptions{.beta2 = 1}, "[0.9, 1]"), "optimizer.betas");
  EXPECT_EQ(refused_key(LambOptions{.eps = 0}, "0"), "optimizer.eps");
  EXPECT_EQ(refused_key(LambOptions{.least_ratio = 2, .most_ratio = 1}, "[2, 1]"), "optimizer.trust_ratio");
  EXPECT_EQ(refused_key(LambOptions{.most_ratio = kInfinity}, "[0.01, inf]"), "optimizer.trust_ratio");
}

// The error names the key.
TEST(UpdateRule, RefusesBadAdamw8bitOptions) {
  EXPECT_EQ(refused_key(AdamW8bitOptions{.lr = -1}, "-1"), "optimizer.lr");
  EXPECT_EQ(refused_key(AdamW8bitOptions{.beta2 = 1}, "[0.9, 1]"), "optimizer.betas");
  EXPECT_EQ(refused_key(AdamW8bitOptions{.eps = 0}, "0"), "optimizer.eps");
  EXPECT_EQ(refused_key(AdamW8bitOptions{.weight_decay = kNaN}, "nan"), "optimizer.weight_decay");
}

TEST(UpdateRule, TakesEdgesOfRanges) {
  EXPECT_EQ(refused_key(AdamWOptions{}, ""), "");
  EXPECT_EQ(refused_key(AdamWOptions{.lr = 0, .beta1 = 0, .beta2 = 0, .weight_decay = 0}, ""), "");
  EXPECT_EQ(refused_key(SgdOptions{.lr = 0, .momentum = 0, .weight_decay = 0}, ""), "");
}

TEST(UpdateRule, SaysWhichStatesAnElementHas) {
  EXPECT_EQ(num_states(*make_update_rule(AdamWOptions{})), 2);
  EXPECT_EQ(num_states(*make_update_rule(SgdOptions{.momentum = 0.9})), 1);
  EXPECT_EQ(num_states(*make_update_rule(SgdOptions{})), 0);
  EXPECT_EQ(num_states(*make_update_rule(AdamOptions{})), 2);
  EXPECT_EQ(num_states(*make_update_rule(LionOptions{})), 1);
  EXPECT_EQ(num_states(*make_update_rule(LambOptions{})), 2);
  EXPECT_EQ(make_update_rule(AdamWOptions{})->states(), (std::vector<StateSpec>{{"exp_avg"}, {"exp_avg_sq"}}));
  EXPECT_EQ(make_update_rule(SgdOptions{.momentum = 0.9})->states(), (std::vector<StateSpec>{{"momentum_buffer"}}));
  EXPECT_EQ(spec_of(*make_update_rule(AdamWOptions{})), OptimizerSpec{});
  EXPECT_EQ(spec_of(*make_update_rule(LambOptions{})).num_reads, 2) << "the first read is for the sums";
  EXPECT_EQ(make_update_rule(AdamOptions{})->name(), "adam");
  EXPECT_EQ(make_update_rule(LambOptions{})->name(), "lamb");
  EXPECT_EQ(make_update_rule(LionOptions{})->name(), "lion");
  EXPECT_EQ(make_update_rule(AdamWOptions{})->name(), "adamw");
  EXPECT_EQ(make_update_rule(SgdOptions{})->name(), "sgd");
}

// A rule declares states of rows and columns apart from states of elements.
TEST(UpdateRule, RowStatesAreDeclaredApart) {
  const auto rule = make_update_rule(AdafactorOptions{});
  const OptimizerSpec spec = spec_of(*rule);
  ASSERT_EQ(spec.states.size(), 1U);
  EXPECT_EQ(spec.states[0].name, "variance");
  ASSERT_EQ(spec.factors.size(), 2U);
  EXPECT_EQ(spec.factors[0].name, "row_var");
  EXPECT_EQ(spec.factors[1].name, "col_var");
  EXPECT_EQ(spec.factor_bytes(/*rows=*/30, /*columns=*/50), 4 * (30 + 50));
  EXPECT_EQ(spec_of(*make_update_rule(AdamWOptions{})).factor_bytes(30, 50), 0);
  const OptimizerSpec averaged = spec_of(*with_average(make_update_rule(AdafactorOptions{}), 0.9));
  EXPECT_EQ(averaged.states.back().name, "ema") << "after the states of elements";
  EXPECT_EQ(averaged.states.size(), 2U);
}

// Both kinds of options have a learning rate and a decay.
TEST(UpdateRule, BothOptionsTellRateAndDecay) {
  EXPECT_EQ(learning_rate(AdamWOptions{.lr = 3e-4}), 3e-4);
  EXPECT_EQ(learning_rate(SgdOptions{.lr = 0.5}), 0.5);
  EXPECT_EQ(weight_decay(AdamWOptions{.weight_decay = 0.2}), 0.2);
  EXPECT_EQ(weight_decay(SgdOptions{.weight_decay = 0.3}), 0.3);
}

TEST(UpdateRule, ThreadsKeepBitsOfOneThread) {
  for (const OptimizerOptions& options : every_rule()) {
    const auto rule = make_update_rule(options);
    constexpr std::int64_t kNumel = 10007;
    SpanMemory alone(kNumel, DType::kBFloat16, num_states(*rule), true, 11);
    SpanMemory shared = alone;
    ThreadTeam team(3);
    for (int step = 1; step <= 3; ++step) {
      const UpdateScalars scalars{.step = step, .lr = 1e-2, .gradient_scale = 0.5, .weight_decay = 0.1};
      rule->update(alone.span(), scalars);
      team.for_range(0, kNumel, 613, [&](auto begin, auto end) { rule->update(shared.span(begin, end), scalars); });
    }
    EXPECT_EQ(shared, alone) << rule->name();
  }
}

TEST(UpdateRule, EveryRuleDescends) {  // to the minimum of (p - 3)^2, whose gradient is 2 (p - 3)
  for (const OptimizerOptions& options : every_rule()) {
    const auto rule = make_update_rule(options);
    SpanMemory memory(8, DType::kFloat32, num_states(*rule), false, 1);
    memory.first_moment.assign(8, 0);
    memory.second_moment.assign(8, 0);
    for (int step = 1; step <= 1000; ++step) {
      for (std::size_t i = 0; i < 8; ++i) memory.gradient[i] = 2 * (memory.parameter[i] - 3);
      rule->update(memory.span(), {.step = step, .lr = 0.02 * std::min(1.0, (1001 - step) / 300.0)});
    }
    for (const float p : memory.parameter) EXPECT_NEAR(p, 3, 1e-2) << rule->name();
  }
}

TEST(UpdateRule, UnfitSpanIsOurBug) {
  const auto adamw = make_update_rule(AdamWOptions{});
  const auto sgd = make_update_rule(SgdOptions{});
  SpanMemory memory(8, DType::kFloat32, 1, false, 1);
  EXPECT_THROW(adamw->update(memory.span(), {}), InternalError) << "no second moment";
  EXPECT_THROW(sgd->update(memory.span(), {}), InternalError) << "a moment too many";
  memory.num_moments = 2;
  EXPECT_THROW(adamw->update(memory.span(), {.step = 0}), InternalError) << "bias correction divides by 0";
  UpdateSpan no_gradient = memory.span();
  no_gradient.gradient = nullptr;
  EXPECT_THROW(adamw->update(no_gradient, {}), InternalError);
  EXPECT_NO_THROW(adamw->update({}, {})) << "a rank whose shard is empty";
}

TEST(UpdateRule, NamesItsInstructionSet) {
  EXPECT_FALSE(kernel_target().empty());
}

TEST(UpdateRule, UnknownCpuRunsBaseline) {
  SpanMemory usual(100, DType::kBFloat16, 2, true, 1);
  SpanMemory baseline = usual;
  const auto rule = make_update_rule(AdamWOptions{});
  rule->update(usual.span(), {});
  hwy::SetSupportedTargetsForTest(HWY_WASM);  // a target of another architecture, so none of ours is left
  rule->update(baseline.span(), {});
  EXPECT_EQ(kernel_target(), hwy::TargetName(HWY_STATIC_TARGET));
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_EQ(baseline, usual);
}

// A user's rule that keeps `count` states and changes nothing.
class KeepsStates final : public UpdateRule {
 public:
  explicit KeepsStates(std::size_t count) : count_(count) {}
  std::string_view name() const override { return "keeps"; }
  std::vector<StateSpec> states() const override { return std::vector<StateSpec>(count_, {"state"}); }
  void update(const UpdateSpan&, const UpdateScalars&) const override {}

 private:
  std::size_t count_;
};

// A rule with one given state, and without factors() and matrices().
class Keeps final : public UpdateRule {
 public:
  explicit Keeps(StateSpec state) : state_(std::move(state)) {}
  std::string_view name() const override { return "keeps"; }
  std::vector<StateSpec> states() const override { return {state_}; }
  void update(const UpdateSpan&, const UpdateScalars&) const override {}

 private:
  StateSpec state_;
};

TEST(UpdateRule, RefusesUserRuleWithUnkeptStates) {
  const auto refusal = [](StateSpec state) {
    return message_of<ConfigError>(
        [&] { make_update_rule(OwnRuleOptions{.rule = std::make_shared<Keeps>(std::move(state))}); });
  };
  EXPECT_TRUE(says(refusal({.name = "a", .per = StatePer::kRow}), "the rule has no factors()"));
  EXPECT_TRUE(says(refusal({.name = "a", .of = StateOf::kMatrices}), "neither matrices() nor factors()"));
  EXPECT_TRUE(says(refusal({.name = "a", .outer = true}), "belongs to an outer step"));
  const auto coded = make_update_rule(
      OwnRuleOptions{.rule = std::make_shared<Keeps>(StateSpec{.name = "a", .code = StateCode::kSigned8})});
  EXPECT_EQ(spec_of(*coded).grain(), kCodeBlock);
  for (const OptimizerOptions& options : default_options()) {
    const auto own = make_update_rule(OwnRuleOptions{.rule = make_update_rule(options)});
    const auto named = make_update_rule(options);
    EXPECT_EQ(own->states(), named->states()) << name_of(options);
    EXPECT_EQ(needs_of(*own), needs_of(*named)) << name_of(options);
  }
}

// A rule of matrices that asks for sums, which only other parameters would have.
class SumsOfMatrices final : public UpdateRule {
 public:
  std::string_view name() const override { return "sums_of_matrices"; }
  std::vector<StateSpec> states() const override { return rule_.states(); }
  const MatrixRule* matrices() const override { return rule_.matrices(); }
  int num_sums() const override { return 1; }
  void update(const UpdateSpan&, const UpdateScalars&) const override {}

 private:
  OrthogonalRule rule_;
};

TEST(UpdateRule, RefusesMatrixRuleWithSums) {
  const std::string refusal =
      message_of<ConfigError>([] { make_update_rule(OwnRuleOptions{.rule = std::make_shared<SumsOfMatrices>()}); });
  EXPECT_TRUE(says(refusal, "optimizer.rule = sums_of_matrices: it has matrices() and 1 sums"));
  EXPECT_TRUE(says(refusal, "num_sums()"));
}

// Four states are the maximum. Rules that wrap this rule add up to three.
TEST(UpdateRule, UserRuleKeepsFourStates) {
  const auto own = [](std::size_t count) { return OwnRuleOptions{.rule = std::make_shared<KeepsStates>(count)}; };
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { make_update_rule(own(5)); }), "optimizer.rule = keeps: it has 5 states"));
  EXPECT_EQ(with_average(make_update_rule(own(4)), 0.9)->states().size(), 5U);
  EXPECT_EQ(with_outer_states(make_update_rule(own(4)), {})->states().size(), 6U);
  EXPECT_EQ(with_outer_states(make_update_rule(own(4)), {}, /*keeps_residual=*/true)->states().size(), kMostStates);
}

}  // namespace
}  // namespace zero
