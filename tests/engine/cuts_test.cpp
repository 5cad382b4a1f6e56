// Cuts change no bit, not even of the gradient norm, by which these runs clip. Units in whole parameters or hashed
// blocks train like units in equal ranges. This holds at every stage, on every tier, with every optimizer.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/update/matrix_directions.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/cut_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

AttachOptions cut(AttachOptions options, Cut shards) {
  options.shards = shards;
  return options;
}

// The bits are equal at every stage.
TEST(CutsOnAnyDevice, WholeParametersMatchRangeBits) {
  Sweep sweep(5);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int world : {2, 3}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        const AttachOptions options{.clip = 0.5, .reduce = reduce, .accumulate = 2};
        std::optional<ScriptedRun> expected;
        for (int stage = 0; stage < 4; ++stage) {
          if (!sweep.takes_next()) continue;
          if (!expected) expected = cut_run(world, small_specs(dtype), options);
          AttachOptions whole = cut(options, Cut::kWhole);
          whole.stage = stage;
          EXPECT_EQ(cut_run(world, small_specs(dtype), whole), *expected)
              << fmt::format("{} ranks, {}, stage {}", world, name_of(dtype), stage);
        }
      }
    }
  }
}

// The bits are equal with any budget.
TEST(CutsSlow, HashedBlocksMatchRangeBits) {
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int world : {1, 2, 3, 4}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        if (!sweep.takes_next()) continue;
        AttachOptions options{.clip = 0.5, .reduce = reduce, .accumulate = 2};
        const ScriptedRun expected = cut_run(world, block_specs(dtype), options);
        EXPECT_EQ(units_of(block_specs(dtype), world, cut(options, Cut::kHash)).front().scattered, world > 1);
        for (const bool minimum : {false, true}) {
          if (minimum) options.device_memory = MemoryBudget::parse("min");
          EXPECT_EQ(cut_run(world, block_specs(dtype), cut(options, Cut::kHash)), expected)
              << fmt::format("{} ranks, {}{}", world, name_of(dtype), minimum ? ", min" : "");
        }
      }
    }
  }
}

TEST(CutsOnAnyDevice, HostAndDiskKeepBits) {
  const TemporaryFolder disk;
  const OffloadOptions offload{
      .fractions = {.parameter = {.disk = 1}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}},
      .disk = {disk.path().string()}};
  for (const bool delayed : {false, true}) {
    AttachOptions options{.clip = 0.5, .delayed_update = delayed, .exact_steps = 1};
    const ScriptedRun expected = cut_run(3, block_specs(DType::kBFloat16), options, 4);
    options.offload = offload;
    for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
      EXPECT_EQ(cut_run(3, block_specs(DType::kBFloat16), cut(options, shards), 4), expected)
          << fmt::format("{}{}", name_of(shards), delayed ? ", delayed" : "");
    }
  }
}

TEST(CutsSlowOnAnyDevice, HaveThemWithEveryOptimizer) {
  const std::vector<OptimizerOptions> optimizers{SgdOptions{.momentum = 0.9}, LambOptions{.weight_decay = 0.1},
                                                 AdamW8bitOptions{}, MuonOptions{}, AdafactorOptions{}};
  for (const OptimizerOptions& optimizer : optimizers) {
    const AttachOptions options{.optimizer = optimizer, .clip = 0.5};
    const ScriptedRun expected = cut_run(3, block_specs(DType::kFloat32), options);
    for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
      if (shards == Cut::kHash && std::holds_alternative<MuonOptions>(optimizer)) continue;
      EXPECT_EQ(cut_run(3, block_specs(DType::kFloat32), cut(options, shards)), expected)
          << fmt::format("{}, {}", name_of(shards), name_of(optimizer));
    }
  }
}

TEST(CutsOnAnyDevice, CopiesOfTheModelKeepBits) {
  AttachOptions options{.clip = 0.5, .accumulate = 2};
  const ScriptedRun expected = cut_run(4, block_specs(DType::kBFloat16), options);
  for (const double norm : expected.norms) EXPECT_GT(norm, 0.5) << "the test must clip";
  options.group = 2;
  for (const Cut shards : {Cut::kRange, Cut::kWhole, Cut::kHash})
    EXPECT_EQ(cut_run(4, block_specs(DType::kBFloat16), cut(options, shards)), expected)
        << std::string(name_of(shards));
}

TEST(Cuts, HaveThemWhereCopiesTrainApart) {
  const AttachOptions options{.group = 2, .local = LocalSteps{.steps = 2}, .clip = 0.5};
  const ScriptedRun expected = cut_run(4, block_specs(DType::kFloat32), options, 4);
  for (const Cut shards : {Cut::kWhole, Cut::kHash})
    EXPECT_EQ(cut_run(4, block_specs(DType::kFloat32), cut(options, shards), 4), expected)
        << std::string(name_of(shards));
}

TEST(Cuts, SendPlannedBytesWithinTheBudget) {
  for (const auto& [shards, optimizer] : {std::pair<Cut, OptimizerOptions>{Cut::kWhole, AdamWOptions{}},
                                          {Cut::kHash, AdamWOptions{}},
                                          {Cut::kWhole, MuonOptions{}}}) {
    AttachOptions options{.shards = shards, .optimizer = optimizer};
    const auto units = units_of(block_specs(DType::kBFloat16), 3, options);
    std::int64_t gathered = 0, largest = 0;
    for (const Unit& unit : units) {
      gathered += gathered_bytes(unit, 3);
      largest = std::max(largest, gathered_bytes(unit, 3));
    }
    const Placement placement = place(3, Reduce::kAuto, 1);
    const std::int64_t state = state_bytes(units, 3, placement, spec_of(*rule_of(options))).total();
    options.device_memory = {.kind = MemoryBudget::Kind::kBytes,
                             .bytes = state + 3 * largest + gathered / 2 + matrix_bytes(units, 3, placement)};
    for (const EngineReport& report : cut_run(3, block_specs(DType::kBFloat16), options).reports) {
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
      EXPECT_LE(report.peak_memory_bytes.device, options.device_memory.bytes) << name_of(shards);
    }
  }
}

TEST(CutsOnAnyDevice, TellTheSameGradientsByName) {
  const auto gradients = [](Cut shards) {
    std::vector<float> values;
    std::vector<double> norms;
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, block_specs(DType::kFloat32), {.shards = shards});
      model.forward(model.all_units());
      model.backward(model.all_units(), 0, 0);
      for (const Unit& unit : model.units()) {
        if (!unit.trainable) continue;
        model.engine().gradients().read(unit.index, [&](std::span<const float> whole) {
          for (const Slice& slice : unit.slices) {
            const auto own =
                whole.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.numel));
            if (comm.rank() == 0) values.insert(values.end(), own.begin(), own.end());
          }
        });
      }
      const auto all = model.engine().gradients().norms();
      if (comm.rank() == 0) norms = all;
      model.engine().step(0.01);
    });
    return std::pair(values, norms);
  };
  const auto expected = gradients(Cut::kRange);
  for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
    const auto seen = gradients(shards);
    EXPECT_EQ(seen, expected) << name_of(shards);
  }
}

TEST(Cuts, KeepWritesToGatheredParameters) {
  for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, block_specs(DType::kBFloat16), {.shards = shards});
      model.train(0);
      const Unit& unit = model.units()[static_cast<std::size_t>(model.unit_named("h.0"))];
      const auto value = [](const Slice& slice, std::int64_t i) { return static_cast<float>((slice.param + i) % 128); };
      {
        const GatheredUnit held = model.engine().use(unit.index, Use::kUntraced);
        for (const Slice& slice : unit.slices) {
          for (std::int64_t i = 0; i < slice.numel; ++i)
            store_element(held.data(), unit.dtype, slice.offset + i, value(slice, i));
        }
        held.mark_written();
      }
      for (const Slice& slice : unit.slices) {
        const std::vector<float> values = model.weights_of(model.specs()[static_cast<std::size_t>(slice.param)].name);
        for (std::int64_t i = 0; i < slice.numel; ++i)
          ASSERT_EQ(values[static_cast<std::size_t>(i)], value(slice, i)) << name_of(shards) << ", element " << i;
      }
    });
  }
}

std::string refusal(const AttachOptions& options) {
  return message_of<ConfigError>([&] { units_of(block_specs(DType::kFloat32), 2, options); });
}

TEST(CutsOnAnyDevice, AreRefusedWhereTheyCannotBe) {
  EXPECT_TRUE(says(refusal({.stage = 2, .shards = Cut::kHash}), "use zero.stage 3"));
  EXPECT_TRUE(says(refusal({.shards = Cut::kHash, .optimizer = MuonOptions{}}), "use whole"));
}

// A unit has three matrices: on two ranks, the first range ends within the second matrix.
std::vector<ParamSpec> three_matrices() {
  return {{.name = "wte", .shape = {700}, .own_unit = true},
          {.name = "h.0.a", .shape = {60, 32}},
          {.name = "h.0.b", .shape = {60, 32}},
          {.name = "h.0.c", .shape = {60, 32}}};
}

// Muon with whole matrices sends as many bytes as AdamW. Its bits are those of equal ranges.
TEST(Cuts, WholeMuonSendsAdamWBytes) {
  const AttachOptions muon{.optimizer = MuonOptions{}, .clip = 0.5};
  const auto run = [](AttachOptions options, int stage, const OptimizerOptions& optimizer, Cut shards) {
    options.stage = stage;
    options.optimizer = optimizer;
    return scripted_run(2, three_matrices(), cut(options, shards), {});
  };
  const ScriptedRun expected = run(muon, 3, MuonOptions{}, Cut::kRange);
  for (const int stage : {0, 1, 2, 3}) {
    const ScriptedRun whole = run(muon, stage, MuonOptions{}, Cut::kWhole);
    EXPECT_EQ(whole, expected) << stage;
    const ScriptedRun adamw = run(muon, stage, AdamWOptions{}, Cut::kWhole);
    const ScriptedRun ranges = run(muon, stage, MuonOptions{}, Cut::kRange);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const EngineReport& report = whole.reports[rank];
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << stage;
      // AdamW pads the embedding to its full size on each rank. Muon cuts the embedding into ranges.
      const std::int64_t passes = stage == 3 ? 3 : 2, padding = passes * 4 * (704 - 352);
      EXPECT_LE(report.sent_bytes_per_step, adamw.reports[rank].sent_bytes_per_step - padding * 2 / 3) << stage;
      EXPECT_GE(report.sent_bytes_per_step, adamw.reports[rank].sent_bytes_per_step - padding) << stage;
      if (stage == 1) {  // from stage 2 on, reductions stage more than updates
        EXPECT_LT(report.peak_memory.device[MemoryTag::kStaging],
                  ranges.reports[rank].peak_memory.device[MemoryTag::kStaging])
            << "two of three matrices";
      }
    }
  }
}

TEST(CutsOnAnyDevice, WholeMatricesLeaveOthersInRanges) {
  const auto units = units_of(three_matrices(), 2, {.shards = Cut::kWhole, .optimizer = MuonOptions{}});
  ASSERT_EQ(units.size(), 2U);
  EXPECT_TRUE(units[0].owned.empty());
  EXPECT_EQ(shard_numel(units[0], 2), 352);
  EXPECT_EQ(shard_numel(units[1], 2), 2 * 60 * 32);
  EXPECT_FALSE(units_of(three_matrices(), 2, {.shards = Cut::kWhole})[0].owned.empty()) << "AdamW has no matrices";
}

TEST(Cuts, WholeMatricesHoldTheirShardsDirections) {
  constexpr std::int64_t kMatrix = 60 * 32;
  const Placement sharded = place(1, Reduce::kAuto, 1), replicated = place(0, Reduce::kAuto, 1);
  AttachOptions options{.optimizer = MuonOptions{}};
  const auto ranges = units_of(three_matrices(), 2, options);
  options.shards = Cut::kWhole;
  const auto whole = units_of(three_matrices(), 2, options);
  const std::int64_t workspace = matrix_bytes(ranges, 2, sharded) - 4 * 3 * kMatrix;
  EXPECT_GT(workspace, 0);
  EXPECT_EQ(matrix_bytes(whole, 2, sharded), 4 * 2 * kMatrix + workspace);
  EXPECT_EQ(matrix_bytes(whole, 2, replicated), 4 * 4 * kMatrix + workspace) << "each rank directs all matrices";
}

TEST(CutsOnAnyDevice, EachMuonMatrixHasOneRank) {
  const std::vector<ParamSpec> specs{{.name = "h.0.a", .shape = {160, 150}}, {.name = "h.0.b", .shape = {160, 150}}};
  AttachOptions options{.optimizer = MuonOptions{}};
  const Placement placement = place(3, Reduce::kAuto, 1);
  const auto rule = rule_of(options);
  const MatrixRule& matrices = *rule->matrices();
  const double one = matrix_flops(units_of({specs.front()}, 1, options), 1, placement, matrices);
  EXPECT_GT(one, 0);
  EXPECT_EQ(matrix_flops(units_of(specs, 3, options), 3, placement, matrices), 2 * one)
      << "the middle rank has a part of both matrices";
  const auto by_rows = [](const MatrixShape& matrix) { return static_cast<double>(matrix.rows); };
  EXPECT_EQ(matrix_cost(units_of(specs, 3, options), 3, placement, by_rows), 2 * 160);
  options.shards = Cut::kWhole;
  EXPECT_EQ(matrix_flops(units_of(specs, 3, options), 3, placement, matrices), one);
}

}  // namespace
}  // namespace zero
