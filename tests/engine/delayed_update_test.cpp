// The one-step delayed update: its result, and equal bits on every tier.
#include <atomic>

#include <gtest/gtest.h>

#include "zero/engine/update_times.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

struct Case {
  int world = 2;
  int stage = 3;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
};

std::string name_of(const Case& c) {
  return fmt::format("{} ranks, stage {}, {}, {} micro-batches", c.world, c.stage, name_of(c.dtype), c.accumulate);
}

// One unit is larger than a tile, so an update can stop halfway through it.
std::vector<ParamSpec> specs(DType dtype) {
  return block_specs(dtype, {.embedding = {280, 950}, .frozen = 2000});
}

using Script = std::function<void(ScriptedModel&, int step)>;

ScriptedRun train(
    const Case& c, AttachOptions options, int steps, const Script& before_step = [](ScriptedModel&, int) {},
    const EngineHost& host = {}) {
  options.stage = c.stage;
  options.accumulate = c.accumulate;
  options.reduce = Reduce::kEach;
  return scripted_run(c.world, specs(c.dtype), options, {.steps = steps, .before = before_step, .host = host});
}

AttachOptions delayed(std::int64_t exact_steps = 0) {
  return {.delayed_update = true, .exact_steps = exact_steps};
}

class Delayed : public testing::Test {
 protected:
  AttachOptions placed(AttachOptions options, const StateFractions& fractions) const {
    options.offload.fractions = fractions;
    options.offload.disk = {folder_.path().string()};
    return options;
  }
  TemporaryFolder folder_;
};

// Makes gradients that do not depend on the parameters, so both runs have the same gradients. A delayed run then ends
// with the exact run's weights, and the model sees each state one step later.
void constant_gradients(ScriptedModel& model, int step) {
  model.edit = [step](int param, std::int64_t element, float) {
    return noise(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(param),
                 static_cast<std::uint64_t>(element));
  };
}
using DelayedSlow = Delayed;

// finish() applies the last gradient.
TEST_F(DelayedSlow, AppliesGradientsOneStepLate) {
  for (const int stage : {2, 3}) {
    const Case c{.stage = stage};
    std::vector<std::vector<float>> exact, late;  // the model's own parameter before each step
    const auto looks = [&](std::vector<std::vector<float>>& seen) {
      return [&](ScriptedModel& model, int step) {
        constant_gradients(model, step);
        const int unit = model.unit_named("h.0");
        const GatheredUnit in_use = model.engine().use(unit, Use::kUntraced);
        const auto* data = reinterpret_cast<const float*>(model.bound(unit));
        if (model.engine().resources().comm.rank() == 0) seen.emplace_back(data, data + 160 * 150);
      };
    };
    const ScriptedRun wanted = train(c, {}, 4, looks(exact));
    const ScriptedRun seen = train(c, delayed(), 4, looks(late));
    EXPECT_EQ(seen.weights, wanted.weights) << name_of(c);
    EXPECT_EQ(seen.reports[0].delayed_steps, 4);
    EXPECT_EQ(late[0], exact[0]) << name_of(c);
    for (std::size_t step = 1; step < exact.size(); ++step)
      EXPECT_EQ(late[step], exact[step - 1]) << name_of(c) << step;
  }
}

TEST_F(DelayedSlow, BeginsAfterItsExactSteps) {
  const ScriptedRun exact = train({}, {}, 3);
  const ScriptedRun late = train({}, delayed(/*exact_steps=*/2), 3);
  // The third gradient would wait for a fourth step. finish() applies it instead.
  EXPECT_EQ(late.reports[0].delayed_steps, 1);
  EXPECT_EQ(late.weights, exact.weights);
  EXPECT_EQ(late.checksums, exact.checksums);
  const ScriptedRun longer = train({}, delayed(/*exact_steps=*/2), 5);
  EXPECT_NE(longer.weights, train({}, {}, 5).weights);
}
using DelayedSlowOnAnyDevice = Delayed;

TEST_F(DelayedSlowOnAnyDevice, NoBitKnowsWhereStatesLie) {
  const std::vector<StateFractions> placements{
      {.optimizer = {.host = 1}},
      {.optimizer = {.disk = 1}},
      {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.parameter = {.host = 0.4, .disk = 0.35}, .gradient = {.host = 0.2, .disk = 0.3}, .optimizer = {.disk = 0.45}},
  };
  std::size_t next = 0;
  for (const auto& [world, dtype, accumulate] : {std::tuple{1, DType::kFloat32, 1},
                                                 {2, DType::kFloat32, 3},
                                                 {2, DType::kBFloat16, 1},
                                                 {3, DType::kBFloat16, 2},
                                                 {2, DType::kFloat16, 2}}) {
    const ScriptedRun resident = train({world, 2, dtype, accumulate}, delayed(1), 4);
    for (int twice = 0; twice < 2; ++twice) {
      const Case c{world, 3, dtype, accumulate};
      const std::size_t i = next++ % placements.size();
      AttachOptions options = placed(delayed(1), placements[i]);
      options.device_memory.kind = next % 3 == 0 ? MemoryBudget::Kind::kAuto : MemoryBudget::Kind::kMin;
      if (next % 5 < 2) options.offload.link_bytes_per_second = 4e9;
      const ScriptedRun seen = train(c, options, 4);
      EXPECT_EQ(seen.weights, resident.weights) << name_of(c) << ", placement " << i;
      EXPECT_EQ(seen.norms, resident.norms) << name_of(c) << ", placement " << i;
      EXPECT_EQ(seen.checksums, resident.checksums) << name_of(c) << ", placement " << i;
    }
  }
}

TEST_F(DelayedSlow, SkipsNonFiniteGradients) {
  const auto run = [&](bool bad) {
    return train({}, placed(delayed(), {.optimizer = {.disk = 1}}), 4, [bad](ScriptedModel& model, int step) {
      model.edit = [=](int param, std::int64_t element, float value) {
        if (step != 1) return noise(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(param), 1);
        return bad && element == 0 ? std::numeric_limits<float>::infinity() : value;
      };
      model.has_gradient = [=](int) { return step != 1 || bad; };
    });
  };
  EXPECT_EQ(run(true).weights, run(false).weights);
  EXPECT_EQ(run(true).reports[0].delayed_steps, 3);
}

// States move between tiers, and units are used between steps.
TEST_F(DelayedSlow, MovesAndExtraUsesChangeNothing) {
  const auto still = train({}, delayed(), 6);
  AttachOptions options = delayed();
  options.offload.disk = {folder_.path().string()};
  std::atomic<int> readings = 0;
  options.offload.monitor = {.reserve_bytes = 1 << 20, .period = std::chrono::milliseconds(0)};
  const auto read = [&readings] { return MemoryReading{.free_bytes = readings++ % 4 < 2 ? 0 : 1 << 30}; };
  const auto use_between_steps = [](ScriptedModel& model, int step) {
    if (step % 2 == 1) (void)model.engine().use(model.unit_named("wte"), Use::kUntraced);
  };
  const auto moved = train({.world = 2}, options, 6, use_between_steps, {.seams = {.read_memory = read}});
  EXPECT_EQ(moved.weights, still.weights);
  EXPECT_EQ(moved.norms, still.norms);
  EXPECT_GE(moved.reports[0].replans, 2);
}

// Every rank's weights after a run whose steps may have other passes than one forward and one backward.
std::vector<std::vector<std::uint32_t>> weights_after(const AttachOptions& options,
                                                      const std::function<void(ScriptedModel&)>& steps) {
  std::vector<std::vector<std::uint32_t>> weights(2);
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, specs(DType::kFloat32), options);
    constant_gradients(model, 0);
    steps(model);
    weights[static_cast<std::size_t>(comm.rank())] = model.weight_bits();
  });
  return weights;
}

TEST_F(DelayedSlow, StepWithoutBackwardLosesNoGradient) {
  const auto steps = [](ScriptedModel& model) {
    for (int step = 0; step < 3; ++step) model.train(step);
    model.engine().step(0.01);
    model.train(3);
  };
  AttachOptions exact, late = placed(delayed(), {.optimizer = {.disk = 1}});
  EXPECT_EQ(weights_after(late, steps), weights_after(exact, steps));
}

// Every rank reads whole weights.
TEST_F(DelayedSlow, ReadsBeforeTheStepAreWhole) {
  const auto steps = [](bool reads) {
    return [reads](ScriptedModel& model) {
      for (int step = 0; step < 3; ++step) model.train(step);
      if (!reads) return;
      model.forward(model.all_units());
      model.backward(model.all_units(), 3, 0);  // no step() follows
    };
  };
  for (const int stage : {2, 3}) {
    AttachOptions exact, late = delayed();
    exact.stage = late.stage = stage;
    const auto wanted = weights_after(exact, steps(false));
    EXPECT_EQ(weights_after(late, steps(true)), wanted) << stage;
    EXPECT_EQ(weights_after(exact, steps(true)), wanted) << stage;
  }
}

TEST_F(DelayedSlow, RejectsUseBetweenBackwardAndStep) {
  weights_after(delayed(), [](ScriptedModel& model) {
    for (int step = 0; step < 3; ++step) model.train(step);
    model.forward(model.all_units());
    model.backward(model.all_units(), 3, 0);
    EXPECT_THROW((void)model.engine().use(0, Use::kUntraced), ConfigError);
    model.engine().step(0.01);
    (void)model.engine().use(0, Use::kUntraced);
  });
}

// Pending gradients are applied neither in the middle of a step nor while a unit is in use.
TEST_F(DelayedSlow, PendingGradientsWaitForTheStep) {
  weights_after(delayed(), [](ScriptedModel& model) {
    for (int step = 0; step < 3; ++step) model.train(step);
    model.forward(model.all_units());
    EXPECT_THROW(model.engine().finish(), ConfigError);
    model.backward(model.all_units(), 3, 0);
    model.engine().step(0.01);
    {
      const GatheredUnit held = model.engine().use(0, Use::kUntraced);
      EXPECT_THROW(model.engine().finish(), ConfigError);
    }
    model.engine().finish();
  });
}

TEST_F(DelayedSlow, PassesOfAStepShareParameters) {
  const auto run = [&](const AttachOptions& options) {
    std::vector<double> checksums(2);
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, specs(DType::kFloat32), options);
      for (int step = 0; step < 4; ++step) {
        for (int pass = 0; pass < 2; ++pass) {  // two passes of one step, not announced
          model.forward(model.all_units());
          model.backward(model.all_units(), step, pass);
        }
        model.engine().step(0.01);
      }
      model.engine().finish();
      checksums[static_cast<std::size_t>(comm.rank())] = model.checksum();
    });
    return checksums;
  };
  AttachOptions whole = delayed(1), least = delayed(1);
  whole.stage = 2;
  least.device_memory.kind = MemoryBudget::Kind::kMin;
  EXPECT_EQ(run(delayed(1)), run(whole));
  EXPECT_EQ(run(least), run(whole));
  EXPECT_EQ(run(placed(least, {.parameter = {.disk = 1}, .optimizer = {.disk = 1}})), run(whole));
}

TEST_F(DelayedSlow, ReportsItsSecondGradient) {
  const auto gradient_bytes = [](const AttachOptions& options) {
    std::int64_t bytes = 0;
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, specs(DType::kFloat32), options);
      model.train(0);
      bytes = model.engine().report().memory.device[MemoryTag::kGradient];
    });
    return bytes;
  };
  EXPECT_EQ(gradient_bytes(delayed()), 2 * gradient_bytes({}));
}

TEST_F(DelayedSlow, IsRefusedWhereGradientsAreWhole) {
  for (const auto& [stage, accumulate, reduce] :
       {std::tuple{0, 1, Reduce::kEach}, {1, 1, Reduce::kEach}, {3, 2, Reduce::kLast}}) {
    on_ranks(1, [&, stage = stage, accumulate = accumulate, reduce = reduce](Communicator& comm) {
      AttachOptions options = delayed();
      options.stage = stage;
      options.accumulate = accumulate;
      options.reduce = reduce;
      EXPECT_THROW(ScriptedModel(comm, specs(DType::kFloat32), options), ConfigError) << stage;
    });
  }
}

}  // namespace
}  // namespace zero
