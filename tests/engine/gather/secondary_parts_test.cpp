// Secondary parts: after the first gather, a unit is gathered within a group of neighbours. Only the bytes that are
// sent change.
#include "zero/engine/gather/secondary_parts.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/placer.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/secondary.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr MemoryBudget kMinBudget{MemoryBudget::Kind::kMin};

ScriptedRun train(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options, int steps = 3) {
  return scripted_run(world, specs, options, {.steps = steps});
}

AttachOptions with_groups_of(int group, AttachOptions options) {
  options.secondary_group = group;
  return options;
}

// Room for states, staging, parts and half of all gathered units, so a step gathers some units twice.
MemoryBudget half_of(const std::vector<ParamSpec>& specs, int world, const AttachOptions& options) {
  const std::vector<Unit> units = units_of(specs, world, options);
  const Placement placement = placement_of(options, units, mesh_of(world, options));
  std::int64_t gathered = 0, largest = 0;
  for (const Unit& unit : units) {
    gathered += gathered_bytes(unit, world);
    largest = std::max(largest, gathered_bytes(unit, world));
  }
  return {.kind = MemoryBudget::Kind::kBytes,
          .bytes = state_bytes(units, world, placement, spec_of(*rule_of(options)), Tier::kDevice).total() +
                   staging_bytes(units, world, placement, false) + secondary_bytes(units, world, placement) +
                   std::max((gathered - secondary_bytes(units, world, placement)) / 2, largest)};
}

TEST(SecondaryPartsOnAnyDevice, HaveTheBitsOfPlainStage3) {
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int accumulate : {1, 2}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        const AttachOptions plain{.stage = 3, .clip = 0.5, .reduce = reduce, .accumulate = accumulate};
        for (const auto& [world, group] : {std::pair{4, 2}, {6, 3}, {6, 2}}) {
          AttachOptions options = with_groups_of(group, plain);
          for (const MemoryBudget memory : {kMinBudget, half_of(small_specs(dtype), world, options)}) {
            if (!sweep.takes_next()) continue;
            options.device_memory = memory;
            const ScriptedRun seen = train(world, small_specs(dtype), options);
            EXPECT_EQ(seen, train(world, small_specs(dtype), plain))
                << fmt::format("{} of {} ranks, {}, {} micro-batches{}", group, world, name_of(dtype), accumulate,
                               reduce == Reduce::kLast ? ", last" : "");
            EXPECT_GT(seen.reports[0].secondary.sent_bytes_per_step, 0);
          }
        }
      }
    }
  }
}

TEST(SecondaryPartsOnAnyDevice, CopiesOfTheModelKeepBits) {
  const AttachOptions plain{.stage = 3, .clip = 0.5, .accumulate = 2};
  AttachOptions options = with_groups_of(2, plain);
  options.group = 4;
  options.device_memory = kMinBudget;
  const ScriptedRun seen = train(8, small_specs(), options);
  EXPECT_EQ(seen, train(8, small_specs(), plain));
  for (const EngineReport& report : seen.reports) {
    EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
    EXPECT_EQ(report.secondary.sent_between_groups, report.secondary.planned_sent_between_groups);
    EXPECT_GT(report.copies.sent_bytes_per_step, 0);
  }
}

// The bits are equal with other optimizers, cuts and averages.
TEST(SecondaryPartsOnAnyDevice, OtherSettingsKeepBits) {
  int number = 0;
  for (const OptimizerOptions& optimizer : default_options()) {
    AttachOptions plain{.stage = 3, .optimizer = optimizer, .clip = 0.5, .ema = 0.9};
    const bool whole = row_of(optimizer) != nullptr && row_of(optimizer)->needs == RuleNeeds::kMatrices;
    if (!whole && number++ % 2 == 0) plain.shards = Cut::kHash;
    AttachOptions options = with_groups_of(2, plain);
    options.device_memory = kMinBudget;
    EXPECT_EQ(train(4, small_specs(), options), train(4, small_specs(), plain)) << name_of(optimizer);
  }
}

// Gathers are also coded in 8 bits. A part holds decoded values. An evaluation reads the owners' values.
TEST(SecondaryPartsOnAnyDevice, HaveThemBesideCodecs) {
  const AttachOptions plain{.stage = 3,
                            .wire = {.gather = WireCodec::kInt8, .reduce = WireCodec::kInt4},
                            .accumulate = 2,
                            .device_memory = kMinBudget};
  const ScriptedSteps evaluated{.before = [](ScriptedModel& model, int) { model.evaluate(); }};
  for (const ScriptedSteps& steps : {ScriptedSteps{}, evaluated}) {
    const ScriptedRun seen = scripted_run(4, small_specs(), with_groups_of(2, plain), steps);
    EXPECT_EQ(seen, scripted_run(4, small_specs(), plain, steps));
    for (const EngineReport& report : seen.reports) EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
  }
}

TEST(SecondaryPartsOnAnyDevice, DelayedStepsKeepBits) {
  const AttachOptions plain{.stage = 3, .clip = 0.5, .delayed_update = true, .exact_steps = 1};
  AttachOptions options = with_groups_of(2, plain);
  options.device_memory = kMinBudget;
  EXPECT_EQ(train(4, small_specs(), options, 5), train(4, small_specs(), plain, 5));
}

// Units are used more than twice, as with activation checkpoints: again in the forward pass, and again before their
// gradients.
TEST(SecondaryPartsOnAnyDevice, ServeRepeatedUnitUse) {
  const auto trained = [](const AttachOptions& options) {
    std::vector<std::uint32_t> bits;
    on_ranks(4, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), options);
      for (int step = 0; step < 3; ++step) {
        model.forward(model.all_units());
        model.forward({2, 1, 3});
        model.backward(model.all_units(), step, 0);
        model.engine().step(0.01);
        if (options.secondary_group == 0 || step == 0) continue;
        const EngineReport report = model.engine().report();
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
      }
      const auto seen = model.weight_bits();
      if (comm.rank() == 0) bits = seen;
    });
    return bits;
  };
  EXPECT_EQ(trained({.stage = 3, .secondary_group = 2, .device_memory = kMinBudget}), trained({.stage = 3}));
}

// In each step, a unit is gathered once over all ranks. Its other gathers are within a group of two.
TEST(SecondaryPartsOnAnyDevice, GatherOverAllRanksOnce) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int accumulate : {1, 3}) {
      AttachOptions options{.stage = 3, .secondary_group = 2, .accumulate = accumulate, .device_memory = kMinBudget};
      const ScriptedRun seen = train(4, small_specs(dtype), options);
      const std::vector<Unit> units = units_of(small_specs(dtype), 4, options);
      std::int64_t parts = 0, over_all = 0;
      for (const Unit& unit : units) {
        parts += (2 * accumulate - 1) * part_gather_bytes(unit, 4, 2);
        over_all += gather_bytes(unit, 4, WireCodec::kNone) +
                    (unit.trainable ? accumulate * reduction_bytes(unit, 4, Placement(), WireCodec::kNone) : 0);
      }
      for (const EngineReport& report : seen.reports) {
        EXPECT_EQ(report.secondary.sent_bytes_per_step, parts);
        EXPECT_EQ(report.secondary.planned_sent_bytes, parts);
        EXPECT_EQ(report.sent_bytes_per_step, parts + over_all);
        EXPECT_EQ(report.planned_sent_bytes, parts + over_all);
        EXPECT_EQ(report.secondary.sent_between_groups, over_all / 3 * 2) << "two of the three other ranks";
        EXPECT_EQ(report.sent_bytes_per_step, report.received_bytes_per_step);
        EXPECT_EQ(sent_bytes(units, 4, placement_of(options, units, mesh_of(4, options))), parts + over_all);
      }
    }
  }
}

TEST(SecondaryPartsOnAnyDevice, TakeThePlannedMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int group : {2, 3}) {
      AttachOptions options{.stage = 3, .secondary_group = group};
      const std::vector<Unit> units = units_of(small_specs(dtype), 6, options);
      for (const MemoryBudget memory : {kMinBudget, half_of(small_specs(dtype), 6, options)}) {
        options.device_memory = memory;
        const ScriptedRun seen = train(6, small_specs(dtype), options);
        for (const EngineReport& report : seen.reports) {
          EXPECT_EQ(report.memory.device[MemoryTag::kSecondary], secondary_bytes(units, 6, group));
          EXPECT_EQ(report.peak_memory.device[MemoryTag::kSecondary], secondary_bytes(units, 6, group));
          if (memory.kind == MemoryBudget::Kind::kBytes) {
            EXPECT_LE(report.peak_memory_bytes.device, memory.bytes);
          }
        }
      }
    }
  }
}

TEST(SecondaryPartsOnAnyDevice, OmittedIfWeightsStayGathered) {
  const ScriptedRun seen = train(4, small_specs(), {.stage = 3, .secondary_group = 2, .accumulate = 2});
  const ScriptedRun plain = train(4, small_specs(), {.stage = 3, .accumulate = 2});
  EXPECT_EQ(seen, plain);
  EXPECT_EQ(seen.reports[0].peak_memory.device, plain.reports[0].peak_memory.device);
  EXPECT_EQ(seen.reports[0].peak_memory.device[MemoryTag::kSecondary], 0);
  EXPECT_EQ(seen.reports[0].sent_bytes_per_step, plain.reports[0].sent_bytes_per_step);
  EXPECT_EQ(seen.reports[0].secondary.sent_bytes_per_step, 0);
}

// Parts are kept if the budget is one byte less than all weights need.
TEST(SecondaryPartsOnAnyDevice, KeptOnceWeightsMissAByte) {
  const AttachOptions options{.stage = 3, .secondary_group = 2};
  const std::vector<Unit> units = units_of(small_specs(), 4, options);
  const Placement placement = placement_of(options, units, mesh_of(4, options));
  const OptimizerSpec rule = spec_of(*rule_of(options));
  std::int64_t all = 0;
  for (const Unit& unit : units) all += gathered_bytes(unit, 4);
  const std::int64_t beside = state_bytes(units, 4, placement, rule, Tier::kDevice).total() +
                              staging_bytes(units, 4, placement, /*min_budget=*/false);
  const auto budget = [&](std::int64_t bytes) {
    return gather_budget({MemoryBudget::Kind::kBytes, bytes}, units, 4, placement, rule, 3, 0);
  };
  EXPECT_FALSE(budget(beside + all).keeps_parts);
  EXPECT_EQ(budget(beside + all).capacity_bytes, all);
  EXPECT_TRUE(budget(beside + all - 1).keeps_parts);
  EXPECT_EQ(budget(beside + all - 1).capacity_bytes, all - 1 - secondary_bytes(units, 4, 2));
  EXPECT_TRUE(gather_budget(kMinBudget, units, 4, placement, rule, 3, 0).keeps_parts);
}

class SecondaryPartsOnTiers : public testing::Test {
 protected:
  AttachOptions placed(AttachOptions options, const StateFractions& fractions) const {
    options.offload.fractions = fractions;
    options.offload.disk = {folder_.path().string()};
    return options;
  }
  TemporaryFolder folder_;
};
using SecondaryPartsOnTiersOnAnyDevice = SecondaryPartsOnTiers;

TEST_F(SecondaryPartsOnTiersOnAnyDevice, KeepBitsAndReadShardsOnce) {
  const auto specs = block_specs(DType::kBFloat16, {.second_block = {300, 1000}});
  const AttachOptions plain{.stage = 3, .clip = 0.5, .accumulate = 2, .device_memory = kMinBudget};
  const ScriptedRun expected = train(4, specs, plain, 3);
  for (const StateFractions& fractions :
       {StateFractions{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
        StateFractions{.parameter = {.host = 0.5, .disk = 0.5}}}) {
    const ScriptedRun seen = train(4, specs, placed(with_groups_of(2, plain), fractions), 3);
    EXPECT_EQ(seen, expected);
    EXPECT_GT(seen.reports[3].memory.disk.state(), 0);
    const ScriptedRun without = train(4, specs, placed(plain, fractions), 3);
    EXPECT_LT(seen.reports[0].requests_per_step.disk.read_bytes, without.reports[0].requests_per_step.disk.read_bytes);
  }
}

// In an evaluation between steps, the second pass gathers within the group only.
TEST(SecondaryParts, ServeAnEvaluationUntilWeightsChange) {
  on_ranks(4, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .secondary_group = 2, .device_memory = kMinBudget});
    model.train(0);
    const auto pass = [&] {
      const std::int64_t before = comm.traffic().sent_bytes;
      model.evaluate();
      return comm.traffic().sent_bytes - before;
    };
    EXPECT_GT(pass(), 0);
    EXPECT_EQ(pass(), 0) << "the run's traffic does not include a group's";
    model.train(1);
    EXPECT_GT(pass(), 0) << "an update was made in between";
  });
}

// Values that are written in the middle of a step are read by the rest of the step.
TEST(SecondaryParts, AreOutdatedByWhoeverWrites) {
  const auto trained = [](const AttachOptions& options) {
    std::vector<std::uint32_t> bits;
    on_ranks(4, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), options);
      for (int step = 0; step < 3; ++step) {
        model.forward(model.all_units());
        {
          GatheredUnit written = model.engine().use(1, Use::kUntraced);
          written.mark_written();
          store_element(written.data(), DType::kFloat32, 3, 0.25F * static_cast<float>(step));
        }
        { const GatheredUnit another = model.engine().use(2, Use::kUntraced); }  // releases unit 1
        model.backward(model.all_units(), step, 0);
        model.engine().step(0.01);
      }
      const auto seen = model.weight_bits();
      if (comm.rank() == 0) bits = seen;
    });
    return bits;
  };
  EXPECT_EQ(trained({.stage = 3, .secondary_group = 2, .device_memory = kMinBudget}),
            trained({.stage = 3, .device_memory = kMinBudget}));
}

std::string refusal(const AttachOptions& options) {
  return message_of<ConfigError>([&] { require_secondary(options, 4); });
}

TEST(SecondaryPartsOnAnyDevice, AreRefusedWhereTheyCannotBe) {
  EXPECT_NO_THROW(require_secondary({.stage = 3, .secondary_group = 2}, 4));
  EXPECT_NO_THROW(require_secondary({.stage = 2}, 4));
  EXPECT_CONTAINS(refusal({.stage = 2, .secondary_group = 2}), "zero.secondary_group = 2: at stage 2");
  for (const int group : {-2, 3, 4, 8})
    EXPECT_CONTAINS(refusal({.stage = 3, .secondary_group = group}), "4 ranks hold one copy of the model");
  EXPECT_CONTAINS(refusal({.stage = 3, .group = 2, .secondary_group = 2}), "2 ranks hold one copy of the model");
  EXPECT_CONTAINS(refusal({.stage = 3, .secondary_group = 1}), "use zero.stage 2");
  EXPECT_CONTAINS(refusal({.stage = 3, .group = 2, .secondary_group = 2, .local = LocalSteps{}}), "train apart");
  EXPECT_CONTAINS(refusal({.stage = 3, .secondary_group = 2, .sync = {.mode = SyncMode::kAsync, .servers = 1}}),
                  "servers");
  EXPECT_CONTAINS(refusal({.stage = 3, .secondary_group = 2, .shards = Cut::kWeighted}), "zero.shards range");
}

TEST(SecondaryPartsOnAnyDevice, AreRefusedOnEveryRank) {
  for (const std::string& end : ends_of_ranks(
           4, [](Communicator& comm) { ScriptedModel model(comm, small_specs(), {.stage = 3, .secondary_group = 3}); }))
    EXPECT_CONTAINS(end, "zero.secondary_group = 3");
}

}  // namespace
}  // namespace zero
