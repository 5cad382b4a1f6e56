// The loss scale: its value, and its effect on an engine's steps.
#include "zero/engine/options/loss_scale.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/message_of.h"
#include "tests/support/tried_rules.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kOverflow = std::numeric_limits<float>::infinity();

// ---- the value ------------------------------------------------------------------------------------------------------

// The scale begins high, and doubles after a number of consecutive good steps.
TEST(LossScale, HalvesOnOverflowDoublesOnSuccess) {
  LossScale scale{LossScaleOptions{.growth_interval = 3}};
  EXPECT_EQ(scale.value(), 65536);
  scale.overflowed();
  EXPECT_EQ(scale.value(), 32768);
  for (int step = 0; step < 2; ++step) scale.updated();
  EXPECT_EQ(scale.value(), 32768);
  scale.updated();
  EXPECT_EQ(scale.value(), 65536);
  for (int step = 0; step < 2; ++step) scale.updated();
  scale.overflowed();  // good steps count from 0 again
  for (int step = 0; step < 2; ++step) scale.updated();
  EXPECT_EQ(scale.value(), 32768);
}

TEST(LossScale, HysteresisSparesFirstOverflows) {
  LossScale scale{LossScaleOptions{.value = 64, .growth_interval = 2, .hysteresis = 2}};
  scale.overflowed();
  EXPECT_EQ(scale.value(), 64);
  scale.overflowed();
  EXPECT_EQ(scale.value(), 32);
  scale.updated();
  scale.overflowed();  // an update does not restore the hysteresis
  EXPECT_EQ(scale.value(), 16);
  scale.updated();
  scale.updated();
  EXPECT_EQ(scale.value(), 32);
  scale.overflowed();  // doubling the scale restored the hysteresis
  EXPECT_EQ(scale.value(), 32);
}

TEST(LossScale, UpdateCanRestoreHysteresis) {
  LossScale scale{LossScaleOptions{.value = 64, .hysteresis = 2, .restored_by_update = true}};
  for (int step = 0; step < 3; ++step) {
    scale.overflowed();
    scale.updated();
  }
  EXPECT_EQ(scale.value(), 64);
  scale.overflowed();
  scale.overflowed();
  EXPECT_EQ(scale.value(), 32);
}

TEST(LossScale, DoublesAfter2000StepsByDefault) {
  LossScale scale{LossScaleOptions{}};
  for (int step = 0; step < 1999; ++step) scale.updated();
  EXPECT_EQ(scale.value(), 65536);
  scale.updated();
  EXPECT_EQ(scale.value(), 131072);
}

TEST(LossScaleOnAnyDevice, HasAMinimumAndStaysFinite) {
  LossScale scale{LossScaleOptions{.value = 4, .growth_interval = 1}};
  for (int step = 0; step < 10; ++step) scale.overflowed();
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.may_fall());
  for (int step = 0; step < 1000; ++step) scale.updated();
  EXPECT_TRUE(std::isfinite(static_cast<float>(scale.value())));
  EXPECT_GT(static_cast<float>(1 / scale.value()), 0);
}

TEST(LossScale, AFixedOneStays) {
  LossScale scale(LossScaleOptions::fixed(1000));
  scale.overflowed();
  for (int step = 0; step < 5000; ++step) scale.updated();
  EXPECT_EQ(scale.value(), 1000);
  EXPECT_FALSE(scale.may_fall());
  scale.restore({.value = 8, .good_steps = 1});
  EXPECT_EQ(scale.value(), 1000);
  EXPECT_EQ(scale.state(), LossScale::State{}) << "a checkpoint does not contain it";
}

// restore() without a saved state begins anew.
TEST(LossScale, ContinuesFromTheSavedScale) {
  LossScale saved{LossScaleOptions{.growth_interval = 5}};
  saved.overflowed();
  for (int step = 0; step < 4; ++step) saved.updated();
  LossScale loaded{LossScaleOptions{.growth_interval = 5}};
  loaded.restore(saved.state());
  loaded.updated();
  EXPECT_EQ(loaded.value(), 65536);
  loaded.overflowed();
  loaded.restore({});
  EXPECT_EQ(loaded.value(), 65536);
}

TEST(LossScale, WhatCannotBeOneIsRefused) {
  const std::vector<std::pair<LossScaleOptions, std::string>> bad{
      {LossScaleOptions::fixed(0), "train.loss_scale = 0: must be a finite number, "},
      {LossScaleOptions::fixed(-1), "train.loss_scale = -1: "},
      {LossScaleOptions::fixed(kInfinity), "train.loss_scale = inf: "},
      {LossScaleOptions::fixed(std::nan("")), "train.loss_scale = nan: "},
      {LossScaleOptions::fixed(0x1p127), "train.loss_scale = "},
      {{.growth_interval = 0}, "train.loss_scale.growth_interval = 0: must be a finite number, 1 or more"},
      {{.least = 0}, "train.loss_scale.least = 0: must be a finite number, "},
      {{.hysteresis = 0}, "train.loss_scale.hysteresis = 0: must be a finite number, 1 or more"},
      {{.value = 1, .least = 2}, "train.loss_scale = 1: a dynamic scale must not begin below its smallest value, 2"}};
  for (const auto& [options, reason] : bad)
    EXPECT_TRUE(says(message_of<ConfigError>([&] { LossScale{options}; }), reason)) << reason;
  EXPECT_NO_THROW(LossScale{LossScaleOptions::fixed(0x1p126)});
  EXPECT_NO_THROW(LossScale{LossScaleOptions::fixed(0x1p-126)});
}

// ---- in an engine ---------------------------------------------------------------------------------------------------

// The state of this rank on which the next step depends: parameters in their own type and in full precision, and all
// optimizer states. The average of the weights is one of them.
struct Everything {
  std::vector<std::uint32_t> weights;
  std::vector<std::byte> states;
  EngineProgress progress;
};

Everything everything_of(ScriptedModel& model) {
  StateAccess& states = model.engine().states();
  Everything all{.weights = model.weight_bits(), .progress = states.progress()};
  const auto append = [&](std::span<const std::byte> bytes) {
    all.states.insert(all.states.end(), bytes.begin(), bytes.end());
  };
  for (const Unit& unit : model.units()) {
    {
      const GatheredUnit in_use = model.engine().use(unit.index, Use::kUntraced);
      append({model.bound(unit.index), static_cast<std::size_t>(unit.numel) * size_of(unit.dtype)});
    }
    for (int state = 1; state < states.contents().num_saved_states(unit.index); ++state) {
      if (!states.contents().keeps(unit.index, state)) continue;
      states.read_shard(unit.index, state,
                        [&](std::int64_t, std::span<const std::byte> elements) { append(elements); });
    }
  }
  for (const FactorStates::State& factor : states.factors()) append(std::as_bytes(factor.values));
  return all;
}

// A rule, with or without an average of the weights.
class OverflowWith : public testing::TestWithParam<std::tuple<TriedRule, double>> {
 protected:
  AttachOptions options(int stage, double loss_scale) const {
    return {.stage = stage,
            .optimizer = std::get<TriedRule>(GetParam()).options,
            .ema = std::get<double>(GetParam()),
            .loss_scale = LossScaleOptions{.value = loss_scale},
            .max_skipped_steps = 2};
  }
};

// Training continues as if the overflow had not happened.
TEST_P(OverflowWith, HalvesTheScaleKeepsTheState) {
  for (int stage = 0; stage <= 3; ++stage) {
    std::array<Everything, 2> undisturbed;  // of each rank
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kFloat16), options(stage, 32));
      model.train(0);
      model.train(4);
      undisturbed[static_cast<std::size_t>(comm.rank())] = everything_of(model);
    });
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kFloat16), options(stage, 256));
      model.train(0);
      const Everything before = everything_of(model);
      const int rank = comm.rank();
      model.edit = [rank](int param, std::int64_t element, float value) {
        return rank == 1 && param == 1 && element == 3 ? kOverflow : value;
      };
      for (int step = 1; step <= 3; ++step) {  // more than max_skipped_steps
        const StepReport report = model.train(step);
        EXPECT_TRUE(report.skipped);
        EXPECT_EQ(report.reason, SkipReason::kOverflow);
        EXPECT_EQ(report.bad_parameter, "h.0.weight");
        EXPECT_EQ(report.loss_scale, 512 / std::pow(2, step)) << "the scale of this step";
        const Everything after = everything_of(model);
        EXPECT_EQ(after.weights, before.weights) << "stage " << stage;
        EXPECT_EQ(after.states, before.states) << "stage " << stage;
        EXPECT_EQ(after.progress.updates, before.progress.updates);
        EXPECT_EQ(after.progress.skipped_in_a_row, 0);
        EXPECT_EQ(after.progress.loss_scale.value, 256 / std::pow(2, step));
      }
      model.edit = [](int, std::int64_t, float value) { return value; };
      const StepReport report = model.train(4);
      EXPECT_FALSE(report.skipped);
      EXPECT_EQ(report.step, 2);
      EXPECT_EQ(report.loss_scale, 32);
      EXPECT_EQ(model.engine().report().skipped_steps, 3);
      const Everything after = everything_of(model), &expected = undisturbed[static_cast<std::size_t>(rank)];
      EXPECT_NE(after.weights, before.weights);
      EXPECT_EQ(after.weights, expected.weights) << "stage " << stage;
      EXPECT_EQ(after.states, expected.states) << "stage " << stage;
      EXPECT_EQ(after.progress.updates, expected.progress.updates);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, OverflowWith,
                         testing::Combine(testing::ValuesIn(tried_rules()), testing::Values(0.0, 0.9)),
                         [](const auto& given) {
                           return std::get<TriedRule>(given.param).name +
                                  (std::get<double>(given.param) > 0 ? "_ema" : "");
                         });

// A power of two scales fp32 gradients exactly, so parameters and norms keep their bits.
TEST(ScaledStepsOnAnyDevice, PowerOfTwoScaleKeepsBits) {
  for (const int accumulate : {1, 3}) {
    on_ranks(2, [&](Communicator& comm) {
      const AttachOptions plain{.stage = 2, .clip = 0.5, .accumulate = accumulate, .average_micro_batches = true};
      AttachOptions scaled = plain;
      scaled.loss_scale = LossScaleOptions{};
      ScriptedModel one(comm, small_specs(), plain), other(comm, small_specs(), scaled);
      for (int step = 0; step < 3; ++step) {
        const StepReport expected = one.train(step, accumulate), seen = other.train(step, accumulate);
        EXPECT_EQ(seen.grad_norm, expected.grad_norm);
        EXPECT_EQ(expected.loss_scale, std::nullopt);
        EXPECT_EQ(seen.loss_scale, 65536);
      }
      EXPECT_EQ(one.weight_bits(), other.weight_bits());
    });
  }
}

TEST(ScaledSteps, ReadGradientHasNoScale) {
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kFloat16), {.stage = 2});
    model.edit = [](int, std::int64_t, float) { return 0.25F; };
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    const int unit = model.unit_named("wte");
    model.engine().gradients().read(unit, [](std::span<const float> whole) { EXPECT_EQ(whole[7], 0.25F); });
    EXPECT_NEAR(model.engine().gradients().norms()[0], 0.25 * std::sqrt(55), 1e-12);
    EXPECT_FALSE(model.engine().step(0.01, {.max_grad_norm = 100}).skipped)
        << "limits also apply to the unscaled gradient";
  });
}

TEST(ScaledSteps, RefusesALossWithoutItsScale) {
  on_ranks(1, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kFloat16), {.stage = 2});
    RankEngine& engine = model.engine();
    (void)engine.use(0, Use::kForward);
    const std::vector<std::byte> gradient(110, std::byte{0});
    engine.add_gradient(0, gradient.data());
    const std::string error = message_of<ConfigError>([&] { engine.step(0.01); });
    EXPECT_TRUE(says(error, "scaled(loss)")) << error;
  });
}

// With a fixed scale, or at the least scale, an overflow is a skipped step.
TEST(ScaledSteps, FixedOrLeastScaleCountsSkips) {
  for (const LossScaleOptions& scale : {LossScaleOptions::fixed(64), LossScaleOptions{.value = 1}}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kFloat16), {.loss_scale = scale, .max_skipped_steps = 2});
      model.edit = [](int, std::int64_t, float) { return kOverflow; };
      EXPECT_EQ(model.train(0).reason, SkipReason::kNonFinite);
      EXPECT_TRUE(says(message_of<Error>([&] { model.train(1); }), "2 steps in a row"));
    });
  }
}

TEST(ScaledSteps, NonFiniteLossAlwaysCounts) {
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kFloat16), {});
    model.edit = [](int, std::int64_t, float) { return kOverflow; };
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    const StepReport report = model.engine().step(0.01, {.loss = std::nan("")});
    EXPECT_EQ(report.reason, SkipReason::kNonFinite);
    EXPECT_EQ(model.engine().states().progress().skipped_in_a_row, 1);
  });
}

// A gradient that is applied one step late keeps its own scale, even if the next step lowers the scale.
TEST(ScaledSteps, DelayedUpdateKeepsItsStepsScale) {
  std::vector<std::vector<std::uint32_t>> weights;
  for (const double scale : {128.0, 2048.0}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(),
                          {.stage = 2,
                           .delayed_update = true,
                           .exact_steps = 0,
                           .loss_scale = LossScaleOptions{.value = scale, .growth_interval = 2}});
      for (int step = 0; step < 5; ++step) {
        model.edit = [step](int, std::int64_t, float value) { return step == 2 ? kOverflow : value; };
        EXPECT_EQ(model.train(step).skipped, step == 2);
      }
      EXPECT_EQ(model.engine().report().loss_scale, 2 * scale) << "doubled, halved, doubled";
      model.engine().finish();
      const auto bits = model.weight_bits();
      if (comm.rank() == 0) weights.push_back(bits);
    });
  }
  EXPECT_EQ(weights[0], weights[1]) << "fp32 gradients: a scale of a power of two is exact";
}

}  // namespace
}  // namespace zero
