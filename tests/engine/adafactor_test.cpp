// Adafactor in an engine: one rank takes the kernel's steps. Every stage, tier and number of ranks gives the same bits
// and holds as many bytes as planned.
#include <bit>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/engine/update/factor_sums.h"
#include "zero/optim/whole/adafactor_kernel.h"
#include "zero/optim/whole/factor_squares.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/factored.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

const AdafactorOptions kAdafactor{.weight_decay = 0.1};

// Matrices whose rows cross the blocks of a sum, a tensor of four dimensions, vectors, and a matrix that gets no
// gradient in one step.
std::vector<ParamSpec> shapes(DType dtype) {
  std::vector<ParamSpec> specs = block_specs(dtype);
  specs.push_back({.name = "conv", .shape = {6, 3, 5, 5}, .dtype = dtype});
  return specs;
}

void without_one(ScriptedModel& model, int step) {
  const int absent = model.param_named("h.0.weight");
  model.has_gradient = [=](int param) { return step != 1 || param != absent; };
}

ScriptedRun train(int world, const AttachOptions& options, DType dtype, bool alike = false) {
  return scripted_run(world, shapes(dtype), options, {.steps = 3, .before = [alike](ScriptedModel& model, int step) {
                                                        if (alike) model.compute_as(0);
                                                        without_one(model, step);
                                                      }});
}

// The kernel's result for a whole parameter, with the gradients of a model on one rank.
std::vector<float> by_hand(const ParamSpec& spec, int param, int num_steps) {
  const auto numel = static_cast<std::size_t>(spec.numel());
  const bool factored = spec.shape.size() > 1;
  const auto rows = static_cast<std::size_t>(factored ? spec.shape.front() : 0);
  std::vector<float> p, g(numel), v(numel), row_var(rows), col_var(factored ? numel / rows : 0);
  for (std::size_t i = 0; i < numel; ++i) p.push_back(noise(7, static_cast<std::uint64_t>(param), i));
  std::int64_t updates = 0;
  for (int step = 0; step < num_steps; ++step) {
    if (step == 1 && spec.name == "h.0.weight") continue;
    for (std::size_t i = 0; i < numel; ++i)
      g[i] = 0.5F * p[i] + noise(static_cast<std::uint64_t>(step * 16 * 64), static_cast<std::uint64_t>(param), i);
    UpdateSpan span{.parameter = p.data(), .gradient = reinterpret_cast<const std::byte*>(g.data())};
    span.states[0] = v.data();
    span.numel = spec.numel();
    const AdafactorConstants constants = adafactor_constants(
        kAdafactor, {.step = ++updates, .lr = 0.01, .weight_decay = factored ? kAdafactor.weight_decay : 0});
    Factors factors;
    if (factored) {
      std::vector<ExactSum> row_sums(rows), column_sums(col_var.size());
      std::mutex lock;
      add_factor_sums(span, constants.gradient_scale, row_sums, column_sums, lock);
      const auto update = [&](std::vector<float>& factor, const std::vector<ExactSum>& sums, std::int64_t terms) {
        std::vector<double> values;
        for (const ExactSum& sum : sums) values.push_back(sum.value());
        update_factor(factor, values, terms, constants);
      };
      update(row_var, row_sums, std::ssize(col_var));
      update(col_var, column_sums, std::ssize(row_var));
      factors = {row_var, col_var, row_mean(row_var, constants)};
    }
    ExactSum of_parameter, of_direction;
    add_adafactor_sums(span, factors, constants, of_parameter, of_direction);
    adafactor_update(span, factors, with_sums(constants, spec.numel(), of_parameter.value(), of_direction.value()));
  }
  return p;
}

TEST(Adafactor, OneRankTakesTheKernelsSteps) {
  const std::vector<ParamSpec> specs = shapes(DType::kFloat32);
  on_ranks(1, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, {.stage = 3, .optimizer = kAdafactor, .threads = 2});
    for (int step = 0; step < 4; ++step) {
      without_one(model, step);
      model.train(step);
    }
    for (std::size_t param = 0; param < specs.size(); ++param) {
      if (!specs[param].trainable) continue;
      EXPECT_EQ(model.weights_of(specs[param].name), by_hand(specs[param], static_cast<int>(param), 4))
          << specs[param].name;
    }
  });
}

TEST(Adafactor, StagesAndTiersKeepBits) {
  const TemporaryFolder disk;
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int world : {1, 2, 3}) {
      for (const int accumulate : {1, 2}) {
        const AttachOptions options{.optimizer = kAdafactor, .clip = 0.5, .accumulate = accumulate};
        std::vector<AttachOptions> placed = at_all_stages(options);
        for (const int stage : {2, 3}) {
          placed.push_back(options);
          placed.back().stage = stage;
          placed.back().threads = 3;
          placed.back().offload = {
              .fractions = {.gradient = {.host = 0.5, .disk = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}},
              .disk = {disk.path().string()}};
          if (stage == 3) placed.back().offload.fractions.parameter = {.disk = 1};
        }
        std::optional<ScriptedRun> expected;
        for (std::size_t i = 0; i < placed.size(); ++i) {
          if (!sweep.takes_next()) continue;
          if (!expected) expected = train(world, options, dtype);
          const ScriptedRun seen = train(world, placed[i], dtype);
          const std::string where = fmt::format("{} ranks, {}, placement {}", world, name_of(dtype), i);
          EXPECT_EQ(seen, *expected) << where;
          for (const EngineReport& report : seen.reports)
            EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << where;
        }
      }
    }
  }
}

// If 2 or 4 ranks have the same gradients, their mean equals one rank's gradient to the last bit.
TEST(Adafactor, AnyNumberOfRanksKeepsBits) {
  const AttachOptions options{.optimizer = kAdafactor};
  const ScriptedRun alone = train(1, options, DType::kFloat32);
  for (const int world : {2, 4}) {
    for (const Cut shards : {Cut::kRange, Cut::kWhole, Cut::kHash}) {
      AttachOptions cut = options;
      cut.shards = shards;
      EXPECT_EQ(train(world, cut, DType::kFloat32, /*alike=*/true).weights, alone.weights)
          << world << " ranks, " << name_of(shards);
    }
  }
}

TEST(Adafactor, WeightAverageKeepsItsSteps) {
  AttachOptions options{.stage = 3, .optimizer = kAdafactor};
  const ScriptedRun plain = train(2, options, DType::kBFloat16);
  options.ema = 0.9;
  EXPECT_EQ(train(2, options, DType::kBFloat16), plain);
}

// Adafactor holds one float for each row and column, at every stage and in the smallest budget.
TEST(Adafactor, HoldsRowsAndColumnsInBudget) {
  std::vector<ParamSpec> specs = shapes(DType::kFloat32);
  std::erase_if(specs, [](const ParamSpec& spec) { return !spec.trainable; });
  const auto expect_about = [](double seen, double formula) { EXPECT_NEAR(seen, formula, 0.01 * formula); };  // padding
  for (int stage = 0; stage < 4; ++stage) {
    AttachOptions options{.stage = stage, .optimizer = kAdafactor};
    options.device_memory = MemoryBudget::parse("min");
    const auto units = units_of(specs, 2, options);
    const Placement placement = place(stage, Reduce::kAuto, 1);
    const OptimizerSpec rule = spec_of(*rule_of(options));
    const StateBytes said = state_bytes(units, 2, placement, rule);
    std::int64_t factors = 0;
    for (const Unit& unit : units) factors += factor_bytes(unit, rule);
    EXPECT_EQ(factors, 4 * ((300 + 101) + 2 * (160 + 150) + (6 + 75)));
    for (const EngineReport& report : scripted_run(2, specs, options, {}).reports) {
      EXPECT_EQ(report.state_bytes[Tier::kDevice], said.total());
      expect_about(static_cast<double>(said.total()), report.state_formula_bytes);
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
      expect_about(static_cast<double>(report.planned_sent_bytes), report.sent_formula_bytes);
      EXPECT_GE(report.peak_memory.device[MemoryTag::kStaging], factor_staging_bytes(units, 2));
      EXPECT_LE(report.peak_memory_bytes.device,
                said.total() + working_bytes(units, 2, placement, /*min_budget=*/true));
    }
  }
}

// Adafactor needs sums over whole parameters first, so it refuses delayed updates. It also refuses local steps.
TEST(Adafactor, RefusesEarlyUpdatesAndLocalSteps) {
  const auto refusal = [](AttachOptions options) {
    options.optimizer = kAdafactor;
    return message_of<Error>(
        [&] { on_ranks(2, [&](Communicator& comm) { ScriptedModel(comm, small_specs(), options); }); });
  };
  EXPECT_TRUE(says(refusal({.delayed_update = true}), "adafactor needs sums over whole parameters"));
  EXPECT_TRUE(says(refusal({.local = LocalSteps{}}), "states of rows and columns"));
}

TEST(Adafactor, FindsStatesThatDifferBetweenRanks) {
  on_ranks(3, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .optimizer = kAdafactor});
    model.train(0);
    EXPECT_TRUE(model.engine().states().compare_replicas().same());
    const FactorStates::State& state = model.engine().states().factors().back();
    if (comm.rank() == 1) state.values.back() *= 2;
    const ReplicaCheck check = model.engine().states().compare_replicas();
    EXPECT_EQ(check.ranks, std::vector<int>{1});
    EXPECT_EQ(check.unit, state.unit);
  });
}

}  // namespace
}  // namespace zero
