// Weighted cuts: ranges in proportion to weights change no bit, at every stage, on every tier, with every optimizer. A
// rank with a small weight holds less than with equal ranges, and sends as many bytes as planned.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/states/shard_weights.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/cut_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

AttachOptions weighted(AttachOptions options, std::vector<double> weights) {
  options.shards = Cut::kWeighted;
  options.shard_weights = std::move(weights);
  return options;
}

std::vector<double> falling(int ranks) {
  std::vector<double> weights;
  for (int rank = 0; rank < ranks; ++rank) weights.push_back(ranks - rank + 1.5 * (rank % 2));
  return weights;
}

// The bits are equal at every stage. The bytes sent are the planned bytes.
TEST(WeightedCuts, CodedCopiesKeepBitsAndBytes) {
  AttachOptions options = weighted({.group = 2, .wire = {.outer = WireCodec::kInt8}}, {3, 1});
  const ScriptedRun expected = cut_run(4, block_specs(DType::kFloat32), options);
  for (const AttachOptions& placed : at_all_stages(options)) {
    const ScriptedRun run = cut_run(4, block_specs(DType::kFloat32), placed);
    EXPECT_EQ(run, expected) << placed.stage;
    for (const EngineReport& report : run.reports)
      EXPECT_EQ(report.copies.sent_bytes_per_step, report.copies.planned_sent_bytes) << placed.stage;
  }
}

// The bits are equal at every stage and in the smallest budget.
TEST(WeightedCuts, MatchRangeBits) {
  Sweep sweep(7);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool small : {true, false}) {
      for (const int world : {2, 3, 4}) {
        for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
          const AttachOptions options{.clip = 0.5, .reduce = reduce, .accumulate = 2};
          const std::vector<ParamSpec> specs = small ? small_specs(dtype) : block_specs(dtype);
          std::optional<ScriptedRun> expected;
          for (const AttachOptions& placed : at_all_stages(weighted(options, falling(world)))) {
            if (!sweep.takes_next()) continue;
            if (!expected) expected = cut_run(world, specs, options);
            EXPECT_EQ(cut_run(world, specs, placed), *expected) << fmt::format(
                "{} ranks, {}, stage {}, {} units", world, name_of(dtype), placed.stage, small ? "small" : "large");
          }
        }
      }
    }
  }
}

// On one rank, any weight gives the same range.
TEST(WeightedCutsOnAnyDevice, EqualWeightsAreRanges) {
  const AttachOptions options{.clip = 0.5};
  const auto specs = block_specs(DType::kFloat32);
  EXPECT_EQ(cut_run(2, specs, weighted(options, {1, 1})), cut_run(2, specs, options));
  EXPECT_EQ(cut_run(1, specs, weighted(options, {3})), cut_run(1, specs, options));
}

TEST(WeightedCutsOnAnyDevice, HostAndDiskKeepBits) {
  const TemporaryFolder disk;
  const OffloadOptions offload{
      .fractions = {.parameter = {.disk = 1}, .gradient = {.host = 1}, .optimizer = {.disk = 1}},
      .disk = {disk.path().string()}};
  for (const bool delayed : {false, true}) {
    for (const char* budget : {"auto", "min"}) {
      AttachOptions options{.clip = 0.5, .delayed_update = delayed, .exact_steps = 1};
      const ScriptedRun expected = cut_run(3, block_specs(DType::kBFloat16), options, 4);
      options.offload = offload;
      options.device_memory = MemoryBudget::parse(budget);
      EXPECT_EQ(cut_run(3, block_specs(DType::kBFloat16), weighted(options, {5, 1, 2}), 4), expected)
          << budget << (delayed ? ", delayed" : "");
    }
  }
}

TEST(WeightedCutsSlowOnAnyDevice, HaveThemWithEveryOptimizer) {
  const std::vector<OptimizerOptions> optimizers{
      SgdOptions{.momentum = 0.9}, LionOptions{}, LambOptions{.weight_decay = 0.1},
      AdamW8bitOptions{},          MuonOptions{}, AdafactorOptions{}};
  for (const OptimizerOptions& optimizer : optimizers) {
    for (const int stage : {1, 3}) {
      AttachOptions options{.stage = stage, .optimizer = optimizer, .clip = 0.5};
      EXPECT_EQ(cut_run(3, block_specs(DType::kFloat32), weighted(options, {1, 4, 2})),
                cut_run(3, block_specs(DType::kFloat32), options))
          << name_of(optimizer) << ", stage " << stage;
    }
  }
}

TEST(WeightedCutsOnAnyDevice, CopiesOfTheModelKeepBits) {
  AttachOptions options{.clip = 0.5, .accumulate = 2};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const ScriptedRun expected = cut_run(4, block_specs(dtype), options);
    AttachOptions grouped = weighted(options, {3, 1});
    grouped.group = 2;
    for (const AttachOptions& placed : at_all_stages(grouped))
      EXPECT_EQ(cut_run(4, block_specs(dtype), placed), expected) << name_of(dtype) << ", stage " << placed.stage;
  }
}

TEST(WeightedCuts, HaveThemWhereCopiesTrainApart) {
  for (const int stage : {0, 2, 3}) {
    const AttachOptions options{.stage = stage, .group = 2, .local = LocalSteps{.steps = 2}, .clip = 0.5};
    EXPECT_EQ(cut_run(4, block_specs(DType::kFloat32), weighted(options, {1, 3}), 4),
              cut_run(4, block_specs(DType::kFloat32), options, 4))
        << stage;
  }
}

// Each rank sends the bytes that are planned for it.
TEST(WeightedCuts, SendPlannedBytes) {
  for (const int stage : {0, 1, 2, 3}) {
    AttachOptions options = weighted({.stage = stage}, {4, 1, 3});
    const ScriptedRun run = cut_run(3, block_specs(DType::kBFloat16), options);
    const std::vector<Unit> units = units_of(block_specs(DType::kBFloat16), 3, options);
    for (int rank = 0; rank < 3; ++rank) {
      const EngineReport& report = run.reports[static_cast<std::size_t>(rank)];
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << "stage " << stage << ", rank " << rank;
      if (stage == 3) continue;  // a step with enough room gathers each unit once
      EXPECT_EQ(report.planned_sent_bytes, sent_bytes(as_seen_by(units, rank), 3, place(stage, Reduce::kAuto, 1)));
    }
  }
}

// The states of a light rank shrink in proportion to its weight. Its peak shrinks by as many bytes.
TEST(WeightedCuts, ALightRankHoldsLess) {
  AttachOptions options{.device_memory = MemoryBudget::parse("min")};
  const auto specs = block_specs(DType::kFloat32);
  const ScriptedRun equal = cut_run(3, specs, options), unequal = cut_run(3, specs, weighted(options, {8, 1, 1}));
  const auto states = [&](const std::vector<Unit>& units) {
    return state_bytes(units, 3, place(3, Reduce::kAuto, 1), spec_of(*rule_of(options))).total();
  };
  const std::vector<Unit> ranges = units_of(specs, 3, options), cut = units_of(specs, 3, weighted(options, {8, 1, 1}));
  const std::int64_t light = states(as_seen_by(cut, 2)), heavy = states(as_seen_by(cut, 0)), even = states(ranges);
  EXPECT_NEAR(static_cast<double>(light) / static_cast<double>(even), 0.3, 0.01);
  EXPECT_NEAR(static_cast<double>(heavy) / static_cast<double>(even), 2.4, 0.01);
  EXPECT_NEAR(static_cast<double>(heavy + 2 * light), 3.0 * static_cast<double>(even),
              0.01 * static_cast<double>(even));
  const auto peak = [](const ScriptedRun& run, std::size_t rank) { return run.reports[rank].peak_memory_bytes.device; };
  constexpr double kRounding = 1024;  // units end at other multiples of 64 bytes
  EXPECT_NEAR(static_cast<double>(peak(equal, 2) - peak(unequal, 2)), static_cast<double>(even - light), kRounding);
  EXPECT_NEAR(static_cast<double>(peak(unequal, 0) - peak(equal, 0)), static_cast<double>(heavy - even), kRounding);
}

TEST(WeightedCuts, KeepTheBudgetOnEachRank) {
  AttachOptions options = weighted({}, {3, 1, 1});
  const auto units = units_of(block_specs(DType::kBFloat16), 3, options);
  std::int64_t gathered = 0, largest = 0;
  for (const Unit& unit : units) {
    gathered += gathered_bytes(unit, 3);
    largest = std::max(largest, gathered_bytes(unit, 3));
  }
  const std::int64_t heavy = state_bytes(units, 3, place(3, Reduce::kAuto, 1), spec_of(*rule_of(options))).total();
  options.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = heavy + 3 * largest + gathered / 2};
  for (const EngineReport& report : cut_run(3, block_specs(DType::kBFloat16), options).reports) {
    EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
    EXPECT_LE(report.peak_memory_bytes.device, options.device_memory.bytes);
  }
}

// The light ranks have enough room. Without an agreement they would wait for the rank that left.
TEST(WeightedCuts, AllRefuseOneRanksBadBudget) {
  AttachOptions options = weighted({}, {20, 1, 1});
  const auto units = units_of(block_specs(DType::kFloat32), 3, options);
  const auto needed = [&](int rank) {
    return state_bytes(as_seen_by(units, rank), 3, place(3, Reduce::kAuto, 1), spec_of(*rule_of(options))).total();
  };
  options.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = needed(0)};
  ASSERT_LT(needed(1) * 4, needed(0));
  const auto expect_refused = [](const AttachOptions& options, const char* key) {
    std::vector<std::string> refusals(3);
    on_ranks(3, [&](Communicator& comm) {
      refusals[static_cast<std::size_t>(comm.rank())] =
          message_of<ConfigError>([&] { const ScriptedModel model(comm, block_specs(DType::kFloat32), options); });
    });
    EXPECT_TRUE(says(refusals[0], "too small by"));
    for (const std::size_t rank : {1, 2}) {
      EXPECT_TRUE(says(refusals[rank], key));
      EXPECT_TRUE(says(refusals[rank], "rank 0 rejects it"));
    }
  };
  expect_refused(options, "zero.device_memory");
  const TemporaryFolder disk;
  options.device_memory = {};
  options.offload = {.fractions = {.optimizer = {.host = 1}},
                     .host_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = needed(1)}};
  expect_refused(options, "zero.host_memory");
  options.offload = {
      .fractions = {.optimizer = {.disk = 1}}, .disk = {disk.path().string()}, .disk_memory = 2 * needed(1)};
  expect_refused(options, "zero.disk_memory");
}

TEST(WeightedCuts, ReportGradientsAndKeepWrites) {
  on_ranks(3, [&](Communicator& comm) {
    ScriptedModel ranges(comm, block_specs(DType::kFloat32), {});
    ScriptedModel model(comm, block_specs(DType::kFloat32), weighted({}, {1, 5, 2}));
    const Unit& unit = model.units()[static_cast<std::size_t>(model.unit_named("h.0"))];
    const auto gradients = [&](ScriptedModel& of) {
      of.forward(of.all_units());
      of.backward(of.all_units(), 0, 0);
      std::vector<float> values;
      of.engine().gradients().read(unit.index, [&](std::span<const float> whole) {
        values.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(unit.numel));
      });
      const auto norms = of.engine().gradients().norms();
      of.engine().step(0.01);
      return std::pair(values, norms);
    };
    EXPECT_EQ(gradients(model), gradients(ranges));
    const Slice& slice = unit.slices.front();
    {
      const GatheredUnit held = model.engine().use(unit.index, Use::kUntraced);
      for (std::int64_t i = 0; i < slice.numel; ++i)
        store_element(held.data(), unit.dtype, slice.offset + i, static_cast<float>(i % 128));
      held.mark_written();
    }
    const std::vector<float> values = model.weights_of("h.0.weight");
    for (std::int64_t i = 0; i < slice.numel; ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i % 128)) << "element " << i;
  });
}

TEST(WeightedCutsOnAnyDevice, AreRefusedWhereTheyCannotBe) {
  const auto refusal = [](const AttachOptions& options) {
    return message_of<ConfigError>([&] { units_of(block_specs(DType::kFloat32), 2, options); });
  };
  EXPECT_TRUE(says(refusal(weighted({.sync = {.servers = 2}}, {1, 1, 1})), "3 weights for 2 servers"));
  EXPECT_TRUE(says(refusal(weighted({}, {1, 1, 1})), "3 weights for 2 ranks"));
  EXPECT_TRUE(says(refusal(weighted({}, {1, 0})), "above 0"));
  EXPECT_TRUE(says(refusal({.shard_weights = {1, 1}}), "set zero.shards"));
  EXPECT_TRUE(says(refusal(weighted({.wire = {.reduce = WireCodec::kInt8}}, {1, 1})), "leave the codec out"));
  EXPECT_TRUE(says(refusal(weighted({.offload = {.fractions = {.optimizer = {.host = 0.5}}}}, {1, 1})), "on one tier"));
  EXPECT_TRUE(says(refusal(weighted({.offload = {.disk = {"/tmp"}}}, {1, 1})), "set zero.placement device"));
}

// The weight of a place is the least memory at that place in all copies.
TEST(WeightedCutsOnAnyDevice, CopiesShareTheirLeastMemory) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const std::vector<std::int64_t> memory{8 * kGiB, 2 * kGiB, 4 * kGiB, 3 * kGiB};
  on_ranks(4, [&](Communicator& comm) {
    const std::int64_t mine = memory[static_cast<std::size_t>(comm.rank())];
    EXPECT_EQ(weights_by_memory(comm, {.shard = 4}, mine), (std::vector<double>{8, 2, 4, 3}));
    EXPECT_EQ(weights_by_memory(comm, {.shard = 2, .copies = 2}, mine), (std::vector<double>{4, 2}));
    EXPECT_EQ(weights_by_memory(comm, {.shard = 4}, 0), std::vector<double>(4, 1.0 / 16));
    const AttachOptions measured = with_shard_weights(weighted({}, {}), comm, 4);
    EXPECT_EQ(measured.shard_weights.size(), 4U);
    const double other = comm.rank() == 2 ? 2 : 1;
    EXPECT_TRUE(says(message_of<ConfigError>([&] {
                       with_shard_weights(weighted({}, {3, 1, 1, other}), comm, 4);
                     }),
                     "rank 0 has [3, 1, 1, 1], and rank 2 has [3, 1, 1, 2]"));
    EXPECT_TRUE(with_shard_weights({}, comm, 4).shard_weights.empty()) << "equal ranges have no weights";
    EXPECT_EQ(with_shard_weights(weighted({}, {}), comm, 4, /*owners=*/3).shard_weights.size(), 3U);
  });
}

}  // namespace
}  // namespace zero
