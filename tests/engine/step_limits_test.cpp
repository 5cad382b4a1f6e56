// Step limits: every rank refuses a step that exceeds its limits, and the step leaves no effect.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "zero/engine/rank_engine.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepReport train(ScriptedModel& model, int step, const StepLimits& limits) {
  model.forward(model.all_units());
  model.backward(model.all_units(), step, 0);
  return model.engine().step(0.01, limits);
}

struct Outcome {
  std::vector<std::uint32_t> weights;
  std::vector<double> norms;
  std::int64_t skipped = 0, delayed = 0;
};

// Step `refused` has limits that it exceeds. With -1 no step has limits.
Outcome run(AttachOptions options, int refused, const StepLimits& limits = {}) {
  Outcome outcome;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options);
    for (int step = 0; step < 5; ++step) {
      const StepReport report = train(model, step, step == refused ? limits : StepLimits{});
      EXPECT_EQ(report.skipped, step == refused);
      if (comm.rank() == 0) outcome.norms.push_back(report.grad_norm);
    }
    const auto bits = model.weight_bits();
    if (comm.rank() != 0) return;
    outcome.weights = bits;
    outcome.skipped = model.engine().report().skipped_steps;
    outcome.delayed = model.engine().report().delayed_steps;
  });
  return outcome;
}

TEST(StepLimits, ExceededLimitSkipsWithAReason) {
  const double bad = kNan;
  const std::vector<std::pair<StepLimits, SkipReason>> cases{
      {{.loss = 3, .max_loss = 2.5}, SkipReason::kLossSpike},
      {{.loss = 3, .max_grad_norm = 1e-3}, SkipReason::kNormSpike},
      {{.max_grad_norm = 1e-3}, SkipReason::kNormSpike},
      {{.loss = 3, .max_loss = 2.5, .max_grad_norm = 1e-3}, SkipReason::kLossSpike},
      {{.loss = bad}, SkipReason::kNonFinite},
      {{.loss = kInfinity}, SkipReason::kNonFinite},
      {{.loss = 3, .max_loss = 3}, SkipReason::kNone},
      {{.max_loss = 2.5}, SkipReason::kNone},
      {{.loss = 3}, SkipReason::kNone},
  };
  for (int stage = 0; stage <= 3; ++stage) {
    for (const auto& [limits, reason] : cases) {
      on_ranks(2, [&, limits = limits, reason = reason](Communicator& comm) {
        ScriptedModel model(comm, small_specs(), {.stage = stage});
        train(model, 0, {});
        const auto before = model.weight_bits();
        const StepReport report = train(model, 1, limits);
        EXPECT_EQ(report.reason, reason) << "stage " << stage;
        EXPECT_EQ(report.skipped, reason != SkipReason::kNone);
        EXPECT_EQ(model.weight_bits() == before, report.skipped) << "stage " << stage;
        EXPECT_EQ(report.step, report.skipped ? 1 : 2);
        EXPECT_EQ(report.bad_parameter, "");
      });
    }
  }
}

TEST(StepLimits, TheLossIsTheRanksMean) {
  on_ranks(3, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2});
    const double mine = 0.1 * (comm.rank() + 1);
    EXPECT_EQ(train(model, 0, {.loss = mine}).loss, (0.0 + 0.1 * 1 + 0.1 * 2 + 0.1 * 3) / 3);
    EXPECT_TRUE(std::isnan(train(model, 1, {}).loss));
    // A spike on one rank is a spike on all ranks. If one rank gives no loss, the other ranks' losses still count.
    EXPECT_EQ(train(model, 2, {.loss = comm.rank() == 1 ? 50.0 : 1.0, .max_loss = 10}).reason, SkipReason::kLossSpike);
    const std::optional<double> some = comm.rank() == 1 ? std::nullopt : std::optional(kNan);
    EXPECT_FALSE(train(model, 3, {.loss = some}).skipped);
  });
}

TEST(StepLimits, RankZerosLimitsCount) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 1});
    const double high_at_0 = comm.rank() == 0 ? 100 : 1, low_at_0 = comm.rank() == 0 ? 1 : 100;
    EXPECT_FALSE(train(model, 0, {.loss = 5, .max_loss = high_at_0, .max_grad_norm = high_at_0}).skipped);
    EXPECT_TRUE(train(model, 1, {.loss = 5, .max_loss = low_at_0}).skipped);
  });
}

TEST(StepLimitsOnAnyDevice, ThatAreKeptChangeNoBit) {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::uint32_t> without, with;
    for (auto* weights : {&without, &with}) {
      on_ranks(2, [&](Communicator& comm) {
        ScriptedModel model(comm, small_specs(), {.stage = stage, .clip = 1.0});
        for (int step = 0; step < 4; ++step)
          train(model, step,
                weights == &with ? StepLimits{.loss = 1, .max_loss = 2, .max_grad_norm = 1e6} : StepLimits{});
        const auto bits = model.weight_bits();
        if (comm.rank() == 0) *weights = bits;
      });
    }
    EXPECT_EQ(with, without) << "stage " << stage;
  }
}

// A refused gradient has no effect, whether gradients are applied at once or one step late.
TEST(StepLimits, RefusedGradientIsNeverApplied) {
  for (const int stage : {2, 3}) {
    for (const int refused : {2, 3, 4}) {
      const StepLimits norm{.max_grad_norm = 1e-3};
      AttachOptions late{.stage = stage, .delayed_update = true, .exact_steps = 1};
      const Outcome spike = run(late, refused, norm);
      EXPECT_EQ(spike.skipped, 1);
      EXPECT_EQ(spike.delayed, 3);
      // A loss that is not finite is refused at the same place, and gives the same run.
      const Outcome other = run(late, refused, {.loss = kNan});
      EXPECT_EQ(spike.weights, other.weights);
      EXPECT_EQ(spike.norms, other.norms);
      EXPECT_NE(spike.weights, run(late, -1).weights);
      // The gradient of the step before is still applied while the refused gradient is computed.
      EXPECT_EQ(std::vector(spike.norms.begin(), spike.norms.begin() + refused + 1), [&] {
        const auto norms = run(late, -1).norms;
        return std::vector(norms.begin(), norms.begin() + refused + 1);
      }());
    }
  }
}

TEST(StepLimits, EndlessRefusalsEndTheRun) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 1, .max_skipped_steps = 3});
    for (int step = 0; step < 3; ++step) train(model, step, {.loss = 4, .max_loss = 2.5});
  });
  for (const std::string& end : ends) {
    EXPECT_NE(end.find("3 steps in a row were skipped"), std::string::npos) << end;
    EXPECT_NE(end.find("its loss of 4 is beyond 2.5"), std::string::npos) << end;
  }
}

}  // namespace
}  // namespace zero
