// Who owns which elements changes no bit, not even of the gradient's norm, by which these runs clip: units that are cut by
// whole parameters or by hashed blocks train as those that are cut into equal ranges, at every stage that has the cut, on
// every tier, with every optimizer.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/matrix_directions.h"
#include "zero/plan/cut.h"
#include "zero/plan/estimate.h"
#include "zero/plan/partition.h"

#include "../message_of.h"
#include "../temporary_folder.h"
#include "../tier.h"
#include "block_specs.h"
#include "cut_run.h"

namespace zero {
namespace {

EngineOptions cut(EngineOptions options, Cut shards) {
  options.shards = shards;
  return options;
}

TEST(Cuts, OfWholeParametersHaveTheBitsOfRangesAtEveryStage) {
  Sweep sweep(5);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int world : {2, 3}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        const EngineOptions options{.clip = 0.5, .reduce = reduce, .accumulate = 2};
        std::optional<ScriptedRun> expected;
        for (int stage = 0; stage < 4; ++stage) {
          if (!sweep.takes_next()) continue;
          if (!expected) expected = cut_run(world, small_specs(dtype), options);
          EngineOptions whole = cut(options, Cut::kWhole);
          whole.stage = stage;
          EXPECT_EQ(cut_run(world, small_specs(dtype), whole), *expected)
              << fmt::format("{} ranks, {}, stage {}", world, name_of(dtype), stage);
        }
      }
    }
  }
}

TEST(Cuts, OfHashedBlocksHaveTheBitsOfRangesAtAnyBudget) {
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int world : {1, 2, 3, 4}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        if (!sweep.takes_next()) continue;
        EngineOptions options{.clip = 0.5, .reduce = reduce, .accumulate = 2};
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

TEST(Cuts, HaveThemWithStatesOnHostAndDisk) {
  const TemporaryFolder disk;
  const OffloadOptions offload{
      .fractions = {.parameter = {.disk = 1}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}},
      .disk = {disk.path().string()}};
  for (const bool delayed : {false, true}) {
    EngineOptions options{.clip = 0.5, .delayed_update = delayed, .exact_steps = 1};
    const ScriptedRun expected = cut_run(3, block_specs(DType::kBFloat16), options, 4);
    options.offload = offload;
    for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
      EXPECT_EQ(cut_run(3, block_specs(DType::kBFloat16), cut(options, shards), 4), expected)
          << fmt::format("{}{}", name_of(shards), delayed ? ", delayed" : "");
    }
  }
}

TEST(Cuts, HaveThemWithEveryOptimizer) {
  const std::vector<OptimizerOptions> optimizers{SgdOptions{.momentum = 0.9}, LambOptions{.weight_decay = 0.1},
                                                 AdamW8bitOptions{}, MuonOptions{}, AdafactorOptions{}};
  for (const OptimizerOptions& optimizer : optimizers) {
    const EngineOptions options{.optimizer = optimizer, .clip = 0.5};
    const ScriptedRun expected = cut_run(3, block_specs(DType::kFloat32), options);
    for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
      if (shards == Cut::kHash && std::holds_alternative<MuonOptions>(optimizer)) continue;
      EXPECT_EQ(cut_run(3, block_specs(DType::kFloat32), cut(options, shards)), expected)
          << fmt::format("{}, {}", name_of(shards), name_of(optimizer));
    }
  }
}

TEST(Cuts, HaveThemWithinCopiesOfTheModel) {
  EngineOptions options{.clip = 0.5, .accumulate = 2};
  const ScriptedRun expected = cut_run(4, block_specs(DType::kBFloat16), options);
  for (const double norm : expected.norms) EXPECT_GT(norm, 0.5) << "the test must clip";
  options.group = 2;
  for (const Cut shards : {Cut::kRange, Cut::kWhole, Cut::kHash})
    EXPECT_EQ(cut_run(4, block_specs(DType::kBFloat16), cut(options, shards)), expected)
        << std::string(name_of(shards));
}

TEST(Cuts, HaveThemWhereCopiesTrainApart) {
  const EngineOptions options{.group = 2, .local = LocalSteps{.steps = 2}, .clip = 0.5};
  const ScriptedRun expected = cut_run(4, block_specs(DType::kFloat32), options, 4);
  for (const Cut shards : {Cut::kWhole, Cut::kHash})
    EXPECT_EQ(cut_run(4, block_specs(DType::kFloat32), cut(options, shards), 4), expected)
        << std::string(name_of(shards));
}

TEST(Cuts, SendWhatIsPlannedAndHoldNoMoreThanTheBudget) {
  for (const Cut shards : {Cut::kWhole, Cut::kHash}) {
    EngineOptions options{.shards = shards};
    const auto units = units_of(block_specs(DType::kBFloat16), 3, options);
    std::int64_t gathered = 0, largest = 0;
    for (const Unit& unit : units) {
      gathered += gathered_bytes(unit, 3);
      largest = std::max(largest, gathered_bytes(unit, 3));
    }
    const std::int64_t state = state_bytes(units, 3, place(3, Reduce::kAuto, 1), spec_of(*rule_of(options))).total();
    options.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = state + 3 * largest + gathered / 2};
    for (const EngineReport& report : cut_run(3, block_specs(DType::kBFloat16), options).reports) {
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
      EXPECT_LE(report.peak_memory_bytes, options.device_memory.bytes) << name_of(shards);
    }
  }
}

TEST(Cuts, TellTheSameGradientsByName) {
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

TEST(Cuts, KeepWhatSomebodyWroteIntoGatheredParameters) {
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

std::string refusal(const EngineOptions& options) {
  return message_of<ConfigError>([&] { units_of(block_specs(DType::kFloat32), 2, options); });
}

TEST(Cuts, AreRefusedWhereTheyCannotBe) {
  EXPECT_TRUE(says(refusal({.stage = 2, .shards = Cut::kHash}), "use zero.stage 3"));
  EXPECT_TRUE(says(refusal({.shards = Cut::kHash, .optimizer = MuonOptions{}}), "use whole"));
}

TEST(Cuts, GiveOneRankEachMatrixOfMuon) {
  const std::vector<ParamSpec> specs{{.name = "h.0.a", .shape = {160, 150}}, {.name = "h.0.b", .shape = {160, 150}}};
  EngineOptions options{.optimizer = MuonOptions{}};
  const Placement placement = place(3, Reduce::kAuto, 1);
  const double one = matrix_flops(units_of({specs.front()}, 1, options), 1, placement);
  EXPECT_GT(one, 0);
  EXPECT_EQ(matrix_flops(units_of(specs, 3, options), 3, placement), 2 * one) << "the middle one has a part of both";
  const auto by_rows = [](const MatrixShape& matrix) { return static_cast<double>(matrix.rows); };
  EXPECT_EQ(matrix_cost(units_of(specs, 3, options), 3, placement, by_rows), 2 * 160);
  options.shards = Cut::kWhole;
  EXPECT_EQ(matrix_flops(units_of(specs, 3, options), 3, placement), one);
}

}  // namespace
}  // namespace zero
