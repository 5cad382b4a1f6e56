#include "zero/optim/outer_step.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule_registry.h"

#include "tests/optim/span_memory.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::int64_t kNumel = 1003;

// Weights that a few steps have moved away from their anchor, with the states of an outer step.
struct Copy {
  SpanMemory memory{kNumel, DType::kFloat32, 2, true, 3};
  std::vector<float> momentum = std::vector<float>(kNumel), anchor = std::vector<float>(kNumel);
  std::vector<float> difference = std::vector<float>(kNumel);

  // The span of a rule with two states of its own. `third`: its outer momentum.
  UpdateSpan span(std::vector<float>& third) {
    UpdateSpan span = memory.span();
    span.states[2] = third.data();
    span.states[3] = anchor.data();
    return span;
  }
};

std::unique_ptr<UpdateRule> local_adamw(const LocalSteps& local = {}) {
  return with_outer_states(make_update_rule(AdamWOptions{}), local);
}

// The step starts at the anchor.
TEST(OuterStep, MatchesPapersNesterovStep) {
  const LocalSteps local{.outer_lr = 0.7, .outer_momentum = 0.9};
  const OuterStep outer(*local_adamw(local), local, /*copies=*/3);
  std::vector<Copy> copies(3);
  std::vector<double> anchor(kNumel, 0.25), momentum(kNumel, 0.0);
  for (Copy& copy : copies) copy.anchor.assign(kNumel, 0.25F);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> sum(kNumel, 0.0F);
    std::vector<double> mean(kNumel, 0.0);
    for (std::size_t c = 0; c < copies.size(); ++c) {
      for (std::size_t i = 0; i < kNumel; ++i) {
        copies[c].memory.parameter[i] += 0.01F * static_cast<float>(c + 1) * std::sin(static_cast<float>(i));
        mean[i] += (anchor[i] - copies[c].memory.parameter[i]) / 3;
      }
      outer.subtract(copies[c].span(copies[c].difference));
      for (std::size_t i = 0; i < kNumel; ++i) sum[i] += copies[c].difference[i];
    }
    for (std::size_t i = 0; i < kNumel; ++i) {
      momentum[i] = 0.9 * momentum[i] + mean[i];
      anchor[i] -= 0.7 * (mean[i] + 0.9 * momentum[i]);
    }
    for (Copy& copy : copies) {
      UpdateSpan span = copy.span(copy.momentum);
      span.gradient = reinterpret_cast<const std::byte*>(sum.data());
      outer.update(span);
      EXPECT_EQ(copy.memory.parameter, copy.anchor);
      for (std::size_t i = 0; i < kNumel; ++i) {
        ASSERT_NEAR(copy.anchor[i], anchor[i], 1e-5) << round << ", " << i;
        ASSERT_EQ(copy.memory.low_precision[i], copy.memory.rounded(copy.anchor[i]));
      }
    }
  }
}

// All copies get their mean.
TEST(OuterStep, RateOneWithoutMomentumGivesMean) {
  const LocalSteps local{.outer_lr = 1, .outer_momentum = 0};
  const OuterStep outer(*local_adamw(local), local, /*copies=*/2);
  Copy a, b;
  std::vector<float> mean(kNumel), sum(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) {
    b.memory.parameter[i] += 0.5F;
    mean[i] = (a.memory.parameter[i] + b.memory.parameter[i]) / 2;
  }
  outer.subtract(a.span(a.difference));
  outer.subtract(b.span(b.difference));
  for (std::size_t i = 0; i < kNumel; ++i) sum[i] = a.difference[i] + b.difference[i];
  UpdateSpan span = a.span(a.momentum);
  span.gradient = reinterpret_cast<const std::byte*>(sum.data());
  outer.update(span);
  for (std::size_t i = 0; i < kNumel; ++i) ASSERT_NEAR(a.anchor[i], mean[i], 1e-6) << i;
}

// One copy, learning rate 1 and no momentum: the step changes nothing.
TEST(OuterStep, RateOneKeepsSingleCopy) {
  const LocalSteps local{.outer_lr = 1, .outer_momentum = 0};
  const OuterStep outer(*local_adamw(local), local, /*copies=*/1);
  Copy copy;
  copy.anchor = copy.memory.parameter;
  for (std::size_t i = 0; i < kNumel; ++i) copy.memory.parameter[i] *= 1.01F;  // like a few local steps
  const std::vector<float> before = copy.memory.parameter;
  outer.subtract(copy.span(copy.difference));
  UpdateSpan span = copy.span(copy.momentum);
  span.gradient = reinterpret_cast<const std::byte*>(copy.difference.data());
  outer.update(span);
  EXPECT_EQ(copy.memory.parameter, before) << "differences of near numbers are exact";
}

// The loss of a copy is the mean of (x - target)^2 / 2 with its own targets. The loss of all copies is the mean of
// their losses.
TEST(OuterStep, LowersAConvexLoss) {
  constexpr std::size_t kCopies = 3;
  for (const LocalSteps& local : {LocalSteps{}, LocalSteps{.outer_lr = 1, .outer_momentum = 0}}) {
    const OuterStep outer(*local_adamw(local), local, kCopies);
    std::vector<Copy> copies(kCopies);
    for (std::size_t c = 1; c < kCopies; ++c) copies[c].memory.parameter = copies[0].memory.parameter;
    const auto target = [](std::size_t c, std::size_t i) { return std::sin(static_cast<double>(i + 7 * c)) + 2; };
    const auto loss = [&](const std::vector<float>& weights) {
      double sum = 0;
      for (std::size_t c = 0; c < kCopies; ++c)
        for (std::size_t i = 0; i < kNumel; ++i)
          sum += std::pow(weights[i] - target(c, i), 2) / (2.0 * kCopies * kNumel);
      return sum;
    };
    const double before = loss(copies[0].memory.parameter);
    std::vector<float> sum(kNumel, 0.0F);
    for (std::size_t c = 0; c < kCopies; ++c) {
      std::vector<float>& weights = copies[c].memory.parameter;
      copies[c].anchor = weights;
      for (int step = 0; step < 5; ++step)
        for (std::size_t i = 0; i < kNumel; ++i) weights[i] -= 0.05F * static_cast<float>(weights[i] - target(c, i));
      outer.subtract(copies[c].span(copies[c].difference));
      for (std::size_t i = 0; i < kNumel; ++i) sum[i] += copies[c].difference[i];
    }
    UpdateSpan span = copies[0].span(copies[0].momentum);
    span.gradient = reinterpret_cast<const std::byte*>(sum.data());
    outer.update(span);
    EXPECT_LT(loss(copies[0].memory.parameter), 0.8 * before) << local.outer_lr;
  }
}

// The two outer states follow the rule's own states, and the rule's update does not use them.
TEST(OuterStep, AddsTwoStatesUpdatesIgnore) {
  const auto plain = make_update_rule(AdamWOptions{});
  const auto local = local_adamw();
  ASSERT_EQ(local->states().size(), 4U);
  EXPECT_EQ(local->states()[2].name, "outer_momentum");
  EXPECT_EQ(local->states()[3].name, "anchor");
  EXPECT_TRUE(local->states()[3].outer);
  EXPECT_FALSE(local->states()[1].outer);
  EXPECT_EQ(local->name(), "adamw");
  EXPECT_EQ(spec_of(*local).element_bytes(), 16);
  EXPECT_EQ(spec_of(*local).outer_bytes(), 8);

  Copy copy;
  SpanMemory alone = copy.memory;
  const UpdateScalars scalars{.lr = 1e-2, .gradient_scale = 0.5, .weight_decay = 0.1};
  plain->update(alone.span(), scalars);
  local->update(copy.span(copy.momentum), scalars);
  EXPECT_EQ(copy.memory, alone);
  EXPECT_EQ(copy.anchor, std::vector<float>(kNumel));
}

TEST(OuterStep, AddsUnsentPartToNextDifference) {
  const auto rule = with_outer_states(make_update_rule(AdamWOptions{}), {}, /*keeps_residual=*/true);
  ASSERT_EQ(rule->states().size(), 5U);
  EXPECT_EQ(rule->states()[2].name, "outer_residual");
  EXPECT_FALSE(rule->states()[2].shared());
  EXPECT_TRUE(rule->states()[3].shared());
  EXPECT_EQ(spec_of(*rule).outer_bytes(), 12);
  const OuterStep outer(*rule, {}, /*copies=*/2);
  EXPECT_TRUE(outer.keeps_residual());
  EXPECT_FALSE(OuterStep(*local_adamw(), {}, 2).keeps_residual());

  Copy copy;
  std::vector<float> residual(kNumel), rest(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) rest[i] = static_cast<float>(i % 3);
  UpdateSpan span = copy.memory.span();
  span.states[2] = residual.data();
  span.states[3] = copy.difference.data();
  span.states[4] = copy.anchor.data();
  span.gradient = reinterpret_cast<const std::byte*>(rest.data());
  outer.keep(span);
  EXPECT_EQ(residual, rest);
  outer.subtract(span);
  for (std::size_t i = 0; i < kNumel; ++i)
    ASSERT_EQ(copy.difference[i], (copy.anchor[i] - copy.memory.parameter[i]) + rest[i]) << i;
  EXPECT_EQ(residual, rest);
}

TEST(OuterStep, AnchoringMakesTheWeightsTheAnchor) {
  const auto rule = local_adamw();
  Copy copy;
  const SpanMemory before = copy.memory;
  make_anchoring(*rule)->update(copy.span(copy.momentum), {});
  EXPECT_EQ(copy.memory, before);
  EXPECT_EQ(copy.anchor, before.parameter);
}

TEST(OuterStep, RefusesBadOptionsByName) {
  const auto refusal = [](const LocalSteps& local) { return message_of<ConfigError>([&] { local_adamw(local); }); };
  EXPECT_TRUE(says(refusal({.steps = 0}), "sync.local_steps = 0"));
  for (const double lr : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_TRUE(says(refusal({.outer_lr = lr}), "sync.outer_lr")) << lr;
  for (const double momentum : {-0.1, 1.0, std::nan("")})
    EXPECT_TRUE(says(refusal({.outer_momentum = momentum}), "sync.outer_momentum")) << momentum;
}

}  // namespace
}  // namespace zero
