// Outer steps in which each copy sends the largest elements of its difference, and keeps all other elements for the
// next outer step.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/numbers/topk_blocks.h"
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

AttachOptions with_topk(double share, const LocalSteps& local = {.steps = 2}) {
  return {.stage = 3, .local = local, .wire = {.outer_topk = share}};
}

int residual_of(const StateAccess& states) {
  const std::vector<std::string> names = states.names();
  return static_cast<int>(std::ranges::find(names, kOuterResidualState) - names.begin());
}

// Residuals of this rank's shards of all units. A unit without a residual has zeros.
std::vector<float> residuals(ScriptedModel& model) {
  StateAccess& states = model.engine().states();
  states.pause();
  std::vector<float> all;
  for (const Unit& unit : model.units()) {
    if (!unit.trainable) {
      all.resize(all.size() + static_cast<std::size_t>(unit.numel));
      continue;
    }
    states.read_shard(unit.index, residual_of(states), [&](std::int64_t, std::span<const std::byte> elements) {
      const auto* const values = reinterpret_cast<const float*>(elements.data());
      all.insert(all.end(), values, values + elements.size() / sizeof(float));
    });
  }
  return all;
}

// The results of train_apart(), and the residuals of each rank after the last step.
struct TopKRun {
  Apart apart;
  std::vector<std::vector<float>> residuals;
};

TopKRun train_topk(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options, int steps) {
  TopKRun run;
  run.residuals.resize(static_cast<std::size_t>(world));
  run.apart = train_apart(world, specs, options, steps, [&](ScriptedModel& model, int step) {
    if (step + 1 == steps)
      run.residuals[static_cast<std::size_t>(model.engine().resources().comm.rank())] = residuals(model);
  });
  return run;
}

// The elements of one block that a message contains, found by sorting.
std::vector<bool> sent_by_sorting(const std::vector<float>& block, double share) {
  std::vector<std::size_t> places(block.size());
  std::iota(places.begin(), places.end(), 0U);
  std::ranges::stable_sort(places, std::ranges::greater(), [&](std::size_t i) { return std::abs(block[i]); });
  std::vector<bool> sent(block.size());
  for (std::int64_t i = 0; i < topk_of_block(std::ssize(block), share); ++i)
    sent[places[static_cast<std::size_t>(i)]] = true;
  return sent;
}

// Three rounds by hand, with copies of one rank each and one block per unit. The names e and D are the paper's.
TEST(OuterTopK, UnsentElementsJoinTheNextDifference) {
  constexpr double kShare = 0.1;
  const LocalSteps local{.steps = 2, .outer_lr = 0.7, .outer_momentum = 0.9};
  const auto units = make_units(small_specs(), {});
  const AttachOptions never = with_topk(kShare, {.steps = 1000, .outer_lr = 0.7, .outer_momentum = 0.9});
  std::vector<double> anchor = apart_values(train_apart(2, small_specs(), never, 0).own[0]);
  std::vector<double> momentum(anchor.size(), 0.0);
  std::vector<std::vector<float>> residual(2, std::vector<float>(anchor.size()));
  for (int round = 1; round <= 3; ++round) {
    // The last round has no outer step.
    const Apart before = train_apart(2, small_specs(), never, 2 * round, [&](ScriptedModel& model, int step) {
      if (step % 2 == 1 && step < 2 * round - 1) model.engine().states().merge();
    });
    const TopKRun merged = train_topk(2, small_specs(), with_topk(kShare, local), 2 * round);
    std::vector<double> sum(anchor.size(), 0.0);
    for (std::size_t copy = 0; copy < 2; ++copy) {
      std::size_t begin = 0, shard_begin = 0;
      for (const Unit& unit : units) {
        const auto numel = static_cast<std::size_t>(unit.numel);
        ASSERT_LE(unit.numel, kTopKBlock);
        std::vector<float> x(static_cast<std::size_t>(unit.trainable ? shard_numel(unit, 1) : unit.numel));
        for (std::size_t i = 0; i < numel && unit.trainable; ++i)
          x[i] = static_cast<float>(anchor[begin + i]) - std::bit_cast<float>(before.own[copy][begin + i]) +
                 residual[copy][begin + i];
        const std::vector<bool> sent = sent_by_sorting(x, kShare);
        for (std::size_t i = 0; i < numel; ++i) {
          if (sent[i]) sum[begin + i] += x[i];
          residual[copy][begin + i] = sent[i] ? 0 : x[i];
          ASSERT_EQ(merged.residuals[copy][shard_begin + i], residual[copy][begin + i]) << unit.name << ", " << i;
        }
        begin += numel;
        shard_begin += x.size();
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      momentum[i] = local.outer_momentum * momentum[i] + sum[i] / 2;
      anchor[i] -= local.outer_lr * (sum[i] / 2 + local.outer_momentum * momentum[i]);
    }
    expect_apart_near(merged.apart.own[0], anchor, 1e-5, fmt::format("round {}", round));
    EXPECT_EQ(merged.apart.own[1], merged.apart.own[0]);
    EXPECT_NE(merged.residuals[0], merged.residuals[1]) << "each copy keeps its own";
    anchor = apart_values(merged.apart.own[0]);  // the next round begins with the run's values
  }
}

TEST(OuterTopK, AllElementsMakeAnExactStep) {
  for (const int group : {1, 2}) {
    AttachOptions options = with_topk(1);
    options.group = group;
    AttachOptions exact = options;
    exact.wire = {};
    const TopKRun run = train_topk(3 * group, small_specs(), options, 5);
    EXPECT_EQ(run.apart.own, train_apart(3 * group, small_specs(), exact, 5).own) << group;
    for (const std::vector<float>& kept : run.residuals) EXPECT_EQ(std::ranges::count(kept, 0.0F), std::ssize(kept));
  }
}

TEST(OuterTopK, StagesKeepBitsAndPlannedBytes) {
  Sweep sweep(2);
  for (const auto& [world, group] : {std::pair{2, 0}, {4, 2}, {6, 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      AttachOptions options = with_topk(0.03);
      options.group = group;
      const auto specs = block_specs(dtype, {.embedding = {120, 51}, .second_block = {40, 31}, .frozen = 200});
      const TopKRun expected = train_topk(world, specs, options, 3);
      EXPECT_GT(std::ranges::count_if(expected.residuals[0], [](float x) { return x != 0; }), 1000);
      for (const AttachOptions& placed : at_all_stages(options)) {
        if (!sweep.takes_next()) continue;
        const std::string where = fmt::format("{} ranks, {}", world, place_of(placed, dtype));
        const TopKRun seen = train_topk(world, specs, placed, 3);
        EXPECT_EQ(seen.apart.own, expected.apart.own) << where;
        EXPECT_EQ(seen.apart.shared, expected.apart.shared) << where;
        EXPECT_EQ(seen.residuals, expected.residuals) << where;
        for (const EngineReport& report : seen.apart.reports) {
          EXPECT_EQ(report.outer.sent_between_copies, report.outer.planned_sent_between_copies) << where;
          EXPECT_EQ(report.outer.sent_bytes, report.outer.planned_sent_bytes) << where;
          EXPECT_NEAR(static_cast<double>(report.outer.sent_between_copies) / report.outer.formula_bytes, 1, 0.05);
        }
      }
    }
  }
}

TEST(OuterTopK, HasThemWhereverStatesLie) {
  const TemporaryFolder disk;
  AttachOptions options = with_topk(0.05);
  options.group = 2;
  const TopKRun expected = train_topk(4, block_specs(DType::kBFloat16), options, 3);
  options.offload.disk = {disk.path().string()};
  for (const StateFractions& place :
       {StateFractions{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
        StateFractions{.optimizer = {.host = 0.5, .disk = 0.3}}}) {
    options.offload.fractions = place;
    const TopKRun seen = train_topk(4, block_specs(DType::kBFloat16), options, 3);
    EXPECT_EQ(seen.apart.own, expected.apart.own);
    EXPECT_EQ(seen.residuals, expected.residuals);
  }
}

// A merge holds a residual and its messages.
TEST(OuterTopK, MergesWithinTheBudget) {
  const auto units = make_units(small_specs(), {});
  for (const int stage : {0, 2}) {
    AttachOptions options = with_topk(0.1);
    options.stage = stage;
    options.group = 2;
    AttachOptions exact = options;
    exact.wire = {};
    const EngineReport dense = train_apart(4, small_specs(), exact, 2).reports[0];
    const EngineReport topk = train_apart(4, small_specs(), options, 2).reports[0];
    std::int64_t held = 0;
    for (const Unit& unit : units)
      if (unit.trainable) held += stage == 0 ? padded_numel(unit, 2) : shard_numel(unit, 2);
    EXPECT_EQ(topk.memory.device[MemoryTag::kMoment], dense.memory.device[MemoryTag::kMoment] + 4 * held);
    Placement placement = place(stage, Reduce::kAuto, 1);
    placement.merged_copies = 2;
    placement.wire = options.wire;
    if (stage == 0) {
      EXPECT_EQ(topk.peak_memory.device[MemoryTag::kStaging], OuterSum::bytes(units, 2, placement));
    }
    const std::int64_t least = working_bytes(units, 2, placement, /*min_budget=*/true) +
                               state_bytes(units, 2, placement, spec_of(*rule_of(options)), Tier::kDevice).total();
    options.offload.automatic = false;
    options.device_memory = {MemoryBudget::Kind::kBytes, least};
    EXPECT_LE(train_apart(4, small_specs(), options, 2).reports[0].peak_memory_bytes.device, least) << stage;
  }
}

// At stages 0 to 2 the ranks of a copy hold the same residual. Copies hold different residuals.
TEST(OuterTopK, ComparesResidualsWithinACopy) {
  on_ranks(4, [](Communicator& comm) {
    AttachOptions options = with_topk(0.1);
    options.stage = 0;
    options.group = 2;
    ScriptedModel model(comm, small_specs(), options);
    StateAccess& states = model.engine().states();
    for (int step = 0; step < 3; ++step) model.train(step);
    EXPECT_TRUE(states.compare_replicas().same()) << states.compare_replicas().describe();
    states.pause();
    if (comm.rank() == 2)
      states.write_held(model.unit_named("h.1"), residual_of(states),
                        [](std::int64_t, std::span<float> out) { std::ranges::fill(out, 3.0F); });
    EXPECT_EQ(states.compare_replicas().ranks, (std::vector{2, 3}));
  });
}

// The refusal names the key.
TEST(OuterTopK, NeedsOuterStepsAndAShare) {
  const auto refused = [](const AttachOptions& options, const std::string& reason) {
    const std::string message = message_of<ConfigError>([&] { require_wire(options, 4); });
    EXPECT_TRUE(says(message, reason)) << message;
  };
  refused({.wire = {.outer_topk = 0.1}}, "comm.outer_topk = 0.1: only sync.mode local has an outer step");
  for (const double share : {-0.1, 1.5, std::nan("")})
    refused(with_topk(share), "must be a finite number, 0 or more and at most 1");
  AttachOptions both = with_topk(0.1);
  both.wire.outer = WireCodec::kInt8;
  refused(both, "comm.outer_topk = 0.1: comm.outer_wire codes outer steps as int8");
  EXPECT_NO_THROW(require_wire(with_topk(1), 4));
}

}  // namespace
}  // namespace zero
