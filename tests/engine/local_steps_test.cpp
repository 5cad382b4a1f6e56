// Copies of a model that train apart. An outer step merges them every few steps.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"

#include "tests/engine/apart_run.h"
#include "tests/engine/block_specs.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr LocalSteps kNever{.steps = 1000};

// Each copy takes its steps. The second outer step uses the momentum of the first.
TEST(LocalSteps, MergeLikeDiLoCo) {
  for (const int group : {1, 2}) {
    const int world = 3 * group;
    const LocalSteps local{.steps = 2, .outer_lr = 0.7, .outer_momentum = 0.9};
    const AttachOptions apart{.stage = 2, .group = group, .local = LocalSteps{.steps = 1000}};
    const AttachOptions merging{.stage = 3, .group = group, .local = local};
    const std::vector<double> first = apart_values(train_apart(world, small_specs(), apart, 0).own[0]);
    std::vector<double> anchor = first, momentum(first.size(), 0.0);
    for (int round = 1; round <= 2; ++round) {
      // The last round has no outer step.
      const Apart before = train_apart(world, small_specs(), apart, 2 * round, [&](ScriptedModel& model, int step) {
        if (step % 2 == 1 && step < 2 * round - 1) model.engine().states().merge();
      });
      std::vector<double> mean(first.size(), 0.0);
      for (int copy = 0; copy < 3; ++copy) {
        const std::vector<double> weights = apart_values(before.own[static_cast<std::size_t>(copy * group)]);
        for (std::size_t i = 0; i < weights.size(); ++i) mean[i] += (anchor[i] - weights[i]) / 3;
      }
      for (std::size_t i = 0; i < mean.size(); ++i) {
        momentum[i] = local.outer_momentum * momentum[i] + mean[i];
        anchor[i] -= local.outer_lr * (mean[i] + local.outer_momentum * momentum[i]);
      }
      EXPECT_NE(before.own[0], before.own[static_cast<std::size_t>(group)]);
      const Apart merged = train_apart(world, small_specs(), merging, 2 * round);
      for (int rank = 0; rank < world; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        expect_apart_near(merged.own[r], anchor, 1e-5, fmt::format("round {}, rank {}", round, rank));
        EXPECT_EQ(merged.own[r], merged.own[0]);
        EXPECT_EQ(merged.shared[r], merged.own[0]);
      }
      anchor = apart_values(merged.own[0]);  // the next round begins with the run's values
    }
  }
}

// With Adam, clipping by the copy's own norm, and micro-batches, the first copy's ranks train like a smaller world.
TEST(LocalSteps, CopiesTrainLikeSeparateRanks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options{.stage = 2, .clip = 0.5, .accumulate = 2};
    const Apart alone = train_apart(2, small_specs(dtype), options, 3);
    options.group = 2;
    options.local = kNever;
    const Apart apart = train_apart(4, small_specs(dtype), options, 3);
    EXPECT_EQ(apart.own[0], alone.own[0]) << name_of(dtype);
    EXPECT_EQ(apart.own[1], alone.own[0]);
    EXPECT_NE(apart.own[2], alone.own[0]);
    EXPECT_EQ(apart.own[2], apart.own[3]);
  }
}

// After each step, copies are averaged: `w_c = w - lr * g_c`, so `mean(w_c) = w - lr * mean(g_c)`.
TEST(LocalSteps, AveragedSgdStepsSumGradients) {
  for (const int world : {2, 3, 4}) {
    AttachOptions options{.stage = 1, .optimizer = SgdOptions{}};
    const Apart sync = train_apart(world, small_specs(), options, 4);
    options.local = LocalSteps{.steps = 1, .outer_lr = 1, .outer_momentum = 0};
    const Apart local = train_apart(world, small_specs(), options, 4);
    expect_apart_near(local.own[0], apart_values(sync.own[0]), 1e-6, fmt::format("{} ranks", world));
  }
}

// Equal copies differ from their anchor by equal amounts, so by the mean. With outer_lr = 1 and no momentum, an outer
// step keeps every copy's weights. The run then equals a run of one copy that synchronizes in each step.
TEST(LocalSteps, EqualCopiesMatchOneCopy) {
  constexpr int kSteps = 6;
  for (const int stage : {0, 3}) {
    for (const auto& [copies, group] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
      const std::vector<double> one = apart_values(train_apart(group, small_specs(), {.stage = stage}, kSteps).own[0]);
      on_ranks(copies * group, [&, copies = copies, group = group](Communicator& comm) {
        const LocalSteps local{.steps = 3, .outer_lr = 1, .outer_momentum = 0};
        ScriptedModel model(comm, small_specs(), {.stage = stage, .group = group, .local = local});
        model.compute_as(comm.rank() % group);
        for (int step = 0; step < kSteps; ++step) EXPECT_EQ(model.train(step).merged, step % 3 == 2);
        expect_apart_near(apart_bits(model), one, 1e-6,
                          fmt::format("{} copies of {} ranks, stage {}, rank {}", copies, group, stage, comm.rank()));
      });
    }
  }
}

TEST(LocalSteps, KeepBitsAtEveryStage) {
  Sweep sweep(2);
  for (const auto& [world, group] : {std::pair{2, 0}, {3, 1}, {4, 2}, {6, 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      AttachOptions options{
          .stage = 3, .group = group, .local = LocalSteps{.steps = 2}, .clip = 0.5, .accumulate = group == 2 ? 2 : 1};
      const Apart expected = train_apart(world, small_specs(dtype), options, 5);
      for (const AttachOptions& placed : at_all_stages(options)) {
        if (!sweep.takes_next()) continue;
        const Apart seen = train_apart(world, small_specs(dtype), placed, 5);
        EXPECT_EQ(seen.own, expected.own) << world << " ranks, " << place_of(placed, dtype);
        EXPECT_EQ(seen.shared, expected.shared) << world << " ranks, " << place_of(placed, dtype);
      }
    }
  }
}

TEST(LocalStepsSlow, HaveThemWithEveryOptimizer) {
  const auto specs = block_specs(DType::kFloat32, {.embedding = {30, 11}, .second_block = {16, 15}, .frozen = 200});
  const std::vector<OptimizerOptions> optimizers{SgdOptions{.momentum = 0.9}, LambOptions{.weight_decay = 0.1},
                                                 AdamW8bitOptions{}, MuonOptions{}};
  int stage = 0;
  for (const OptimizerOptions& optimizer : optimizers) {
    AttachOptions options{.stage = 3, .group = 2, .local = LocalSteps{.steps = 2}, .optimizer = optimizer};
    const Apart expected = train_apart(4, specs, options, 3);
    EXPECT_NE(expected.own[0], expected.own[2]) << "the third step is its own round";
    options.stage = stage++ % 3;
    const Apart seen = train_apart(4, specs, options, 3);
    EXPECT_EQ(seen.own, expected.own) << name_of(optimizer) << ", stage " << options.stage;
    EXPECT_EQ(seen.shared, expected.shared) << name_of(optimizer);
  }
}

TEST(LocalStepsSlow, HaveThemWhereverStatesLie) {
  const TemporaryFolder disk;
  const std::vector<StateFractions> places{
      {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.parameter = {.host = 0.5}, .gradient = {.host = 0.4, .disk = 0.3}, .optimizer = {.host = 0.5, .disk = 0.5}},
      {.optimizer = {.host = 1}}};
  int which = 0;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options{.stage = 3, .group = 2, .local = LocalSteps{.steps = 2}};
    const Apart expected = train_apart(4, block_specs(dtype), options, 3);
    for (int tries = 0; tries < 2; ++tries) {
      options.offload.disk = {disk.path().string()};
      options.offload.fractions = places[static_cast<std::size_t>(which++ % 3)];
      const Apart seen = train_apart(4, block_specs(dtype), options, 3);
      EXPECT_EQ(seen.own, expected.own) << which << name_of(dtype);
      EXPECT_EQ(seen.shared, expected.shared) << which << name_of(dtype);
    }
  }
}

// Between copies, an outer step sends 8 (P/S)(R-1)/R bytes and the padding. Other steps send nothing. The plan and the
// formula agree.
TEST(LocalSteps, SendPlannedBytes) {
  const auto units = make_units(small_specs(DType::kBFloat16), {});
  for (const auto& [world, group] : {std::pair{2, 1}, {3, 1}, {4, 2}, {6, 2}}) {
    for (const AttachOptions& of_one : at_all_stages({.local = LocalSteps{.steps = 2}})) {
      AttachOptions options = of_one, alone = of_one;
      options.group = group;
      alone.local.reset();
      const std::int64_t within =
          train_apart(group, small_specs(DType::kBFloat16), alone, 3).reports[0].sent_bytes_per_step;
      const Mesh mesh{.shard = group, .copies = world / group};
      const OuterBytes planned = outer_bytes(units, mesh, place(options.stage, Reduce::kAuto, 1));
      std::int64_t padding = 0, numel = 0;
      for (const Unit& unit : units) {
        if (!unit.trainable) continue;
        numel += used_numel(unit);
        padding += mesh.copies * outer_block_numel(unit, mesh) - used_numel(unit) / group;
      }
      for (const EngineReport& report : train_apart(world, small_specs(DType::kBFloat16), options, 3).reports) {
        const std::string where = fmt::format("{} ranks, {}", world, place_of(options, DType::kBFloat16));
        EXPECT_EQ(report.outer.steps, 1);
        EXPECT_EQ(report.outer.sent_bytes, planned.total()) << where;
        EXPECT_EQ(report.outer.planned_sent_bytes, planned.total()) << where;
        EXPECT_EQ(report.outer.sent_between_copies, planned.between_copies) << where;
        EXPECT_EQ(report.outer.planned_sent_between_copies, planned.between_copies);
        EXPECT_DOUBLE_EQ(report.outer.formula_bytes,
                         8.0 * static_cast<double>(numel) / group * (mesh.copies - 1) / mesh.copies);
        EXPECT_GE(static_cast<double>(planned.between_copies), report.outer.formula_bytes);
        EXPECT_LE(static_cast<double>(planned.between_copies),
                  report.outer.formula_bytes + static_cast<double>(8 * padding));
        EXPECT_EQ(report.copies.sent_bytes_per_step, 0) << where;
        EXPECT_EQ(report.copies.planned_sent_bytes, 0) << where;
        EXPECT_EQ(report.sent_bytes_per_step, within) << where;
        EXPECT_EQ(report.planned_sent_bytes, within) << where;
      }
    }
  }
}

// The sums take the memory of one unit.
TEST(LocalSteps, MergingHoldsAnchorMomentumAndSums) {
  for (const int stage : {0, 2}) {
    AttachOptions options{.stage = stage, .group = 2};
    const EngineReport sync = train_apart(2, small_specs(), options, 2).reports[0];
    options.local = LocalSteps{.steps = 2};
    const EngineReport local = train_apart(4, small_specs(), options, 2).reports[0];
    const auto units = make_units(small_specs(), {});
    std::int64_t held = 0, used = 0;
    for (const Unit& unit : units) {
      if (!unit.trainable) continue;
      held += stage == 0 ? padded_numel(unit, 2) : shard_numel(unit, 2);
      used += used_numel(unit);
    }
    EXPECT_EQ(local.memory.device[MemoryTag::kMoment], sync.memory.device[MemoryTag::kMoment] + 8 * held);
    EXPECT_DOUBLE_EQ(local.state_formula_bytes,
                     sync.state_formula_bytes + static_cast<double>(stage == 0 ? 8 * used : 4 * used));
    Placement placement = place(stage, Reduce::kAuto, 1);
    placement.merged_copies = 2;
    if (stage > 0) continue;
    EXPECT_EQ(local.peak_memory.device[MemoryTag::kStaging], OuterSum::bytes(units, 2, placement));
  }
}

TEST(LocalSteps, KeepABudgetInBytes) {
  AttachOptions options{.stage = 3, .group = 2, .local = LocalSteps{.steps = 1}};
  options.offload.automatic = false;
  const auto units = make_units(small_specs(), {});
  Placement placement = place(3, Reduce::kAuto, 1);
  placement.merged_copies = 2;
  const std::int64_t least = working_bytes(units, 2, placement, /*min_budget=*/true) +
                             state_bytes(units, 2, placement, spec_of(*rule_of(options)), Tier::kDevice).total();
  for (int quarter = 0; quarter <= 4; ++quarter) {
    options.device_memory = {MemoryBudget::Kind::kBytes, least + least * quarter / 8};
    EXPECT_LE(train_apart(4, small_specs(), options, 2).reports[0].peak_memory_bytes.device,
              options.device_memory.bytes);
  }
  options.device_memory.bytes = least - 1;
  EXPECT_TRUE(says(ends_of_ranks(4, [&](Communicator& comm) { ScriptedModel model(comm, small_specs(), options); })[3],
                   "too small by 1 B"));
}

// Only one copy has the infinity. The skipped step counts as a local step.
TEST(LocalSteps, InfinityMakesAllCopiesSkip) {
  on_ranks(4, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2, .group = 2, .local = LocalSteps{.steps = 2}});
    EXPECT_FALSE(model.train(0).skipped);
    model.edit = [&](int param, std::int64_t element, float value) {
      const bool here = param == 3 && element == 5 && comm.rank() == 3;
      return here ? std::numeric_limits<float>::infinity() : value;
    };
    const StepReport report = model.train(1);
    EXPECT_TRUE(report.skipped);
    EXPECT_TRUE(report.merged) << "the outer step counts taken and skipped steps";
    EXPECT_EQ(report.bad_parameter, model.specs()[3].name);
  });
}

TEST(LocalSteps, ReportTheMeanCopyNorm) {
  on_ranks(3, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 1, .local = LocalSteps{}});
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    double squares = 0;
    for (const double norm : model.engine().gradients().norms()) squares += norm * norm;
    std::vector<double> norms(3);
    const double mine = std::sqrt(squares);
    comm.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(norms)), {.control = true})
        .wait();
    comm.drain();
    EXPECT_NE(norms[0], norms[1]);
    EXPECT_NEAR(model.engine().step(0.01).grad_norm, (norms[0] + norms[1] + norms[2]) / 3, 1e-6 * mine);
  });
}

// A comparison covers only states that copies have in common.
TEST(LocalSteps, CompareOnlyCommonState) {
  for (const int stage : {0, 1, 3}) {
    on_ranks(4, [stage](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16),
                          {.stage = stage, .group = 2, .local = LocalSteps{.steps = 2}});
      StateAccess& states = model.engine().states();
      for (int step = 0; step < 3; ++step) model.train(step);
      const ReplicaCheck clean = states.compare_replicas();
      EXPECT_TRUE(clean.compared);
      EXPECT_TRUE(clean.same()) << clean.describe();
      const int anchor = static_cast<int>(states.names().size()) - 1, unit = model.unit_named("h.1");
      const auto spoil = [&](int state, int rank) {
        states.pause();
        if (comm.rank() != rank) return;
        states.write_held(unit, state, [](std::int64_t, std::span<float> out) { out[0] = 3; });
      };
      if (stage < 3) {  // each copy holds whole parameters
        spoil(0, 2);
        EXPECT_EQ(states.compare_replicas().ranks, (std::vector{2, 3}))
            << "of two ranks that differ, either may be right";
      }
      spoil(anchor, 1);
      const std::vector<int> found = states.compare_replicas().ranks;
      EXPECT_TRUE(std::ranges::find(found, 1) != found.end());
    });
  }
}

TEST(LocalSteps, RefuseConflictsByName) {
  const auto end = [](int world, const AttachOptions& options) {
    return ends_of_ranks(world, [&](Communicator& comm) { ScriptedModel model(comm, small_specs(), options); })[0];
  };
  EXPECT_TRUE(
      says(end(2, {.group = 2, .local = LocalSteps{}}), "sync.mode = local: there is only one copy of the model"));
  EXPECT_TRUE(says(end(1, {.local = LocalSteps{}}), "use more ranks"));
  EXPECT_TRUE(says(end(2, {.local = LocalSteps{}, .ema = 0.9}), "train.ema = 0.9"));
  EXPECT_TRUE(says(end(2, {.stage = 2, .local = LocalSteps{}, .delayed_update = true}), "zero.delayed_update"));
  EXPECT_TRUE(says(end(4, {.group = 3, .local = LocalSteps{}}), "zero.group"));
  EXPECT_TRUE(says(end(2, {.local = LocalSteps{.steps = 0}}), "sync.local_steps"));
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {});
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { model.engine().states().merge(); }), "give attach() outer steps: .local"));
  });
}

}  // namespace
}  // namespace zero
