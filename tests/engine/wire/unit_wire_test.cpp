// Coded units: the same bits on every tier, the planned bytes, and shards that stay exact.
#include "zero/engine/wire/unit_wire.h"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr WireCodecs kReduce8{.reduce = WireCodec::kInt8};
constexpr WireCodecs kBoth4{.gather = WireCodec::kInt4, .reduce = WireCodec::kInt4};

// The bits are equal at every stage.
TEST(UnitWireOnAnyDevice, CodedSumsKeepBits) {
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int accumulate : {1, 2}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        const AttachOptions options{.wire = kReduce8, .reduce = reduce, .accumulate = accumulate};
        const ScriptedRun expected = scripted_run(3, small_specs(dtype), options, {});
        for (const AttachOptions& placed : at_all_stages(options)) {
          if (!sweep.takes_next()) continue;
          EXPECT_EQ(scripted_run(3, small_specs(dtype), placed, {}), expected)
              << name_of(dtype) << ", stage " << placed.stage << ", " << accumulate << " micro-batches";
        }
      }
    }
  }
}

// The bits are equal in every budget and on every tier.
TEST(UnitWire, CodedGathersKeepBits) {
  const TemporaryFolder disk;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options{.stage = 3, .wire = kBoth4};
    const ScriptedRun expected = scripted_run(2, block_specs(dtype), options, {});
    options.device_memory = MemoryBudget::parse("min");
    EXPECT_EQ(scripted_run(2, block_specs(dtype), options, {}), expected) << name_of(dtype);
    options.device_memory = {};
    options.offload.disk = {disk.path().string()};
    options.offload.fractions = {
        .parameter = {.host = 0.4, .disk = 0.3}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
    EXPECT_EQ(scripted_run(2, block_specs(dtype), options, {}), expected) << name_of(dtype);
  }
}

TEST(UnitWireOnAnyDevice, WorldOfOneIsUnchanged) {
  const ScriptedRun expected = scripted_run(1, small_specs(), {.stage = 3}, {});
  EXPECT_EQ(scripted_run(1, small_specs(), {.stage = 3, .wire = kBoth4}, {}), expected);
}

// A step of a large unit moves weights by less than a step of the codec. So the trained weights differ from the
// gathered weights.
TEST(UnitWireOnAnyDevice, TrainsNearlyLikeExactBytes) {
  for (const WireCodecs& wire : {kReduce8, WireCodecs{.gather = WireCodec::kInt8}}) {
    const AttachOptions options{.stage = 3, .optimizer = SgdOptions{}};
    AttachOptions coded = options;
    coded.wire = wire;
    const ScriptedRun exact = scripted_run(2, block_specs(DType::kFloat32), options, {});
    const ScriptedRun seen = scripted_run(2, block_specs(DType::kFloat32), coded, {});
    EXPECT_NE(seen.weights, exact.weights);
    ASSERT_EQ(seen.weights.size(), exact.weights.size());
    // There are three updates with lr 0.01. A contribution is at most 1.5, so each of two ranks errs by less than 1.5 /
    // 127.
    for (std::size_t i = 0; i < exact.weights.size(); ++i)
      ASSERT_NEAR(std::bit_cast<float>(seen.weights[i]), std::bit_cast<float>(exact.weights[i]), 3 * 0.01 * 0.04) << i;
  }
}

// The plan and the formula agree.
TEST(UnitWire, SendsPlannedBytes) {
  Sweep sweep(7);
  for (const int world : {2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const WireCodec codec : {WireCodec::kInt8, WireCodec::kInt4}) {
        for (AttachOptions options : at_all_stages({.wire = {.reduce = codec}, .accumulate = 2})) {
          if (!sweep.takes_next()) continue;
          if (options.stage == 3) options.wire.gather = codec;
          const ScriptedRun run = scripted_run(world, block_specs(dtype), options, {.steps = 2});
          Placement placement = place(options.stage, Reduce::kEach, 2);
          placement.wire = options.wire;
          double formula = 0;
          for (const ParamSpec& spec : block_specs(dtype))
            formula += spec.trainable ? sent_formula_bytes(spec.numel(), world, placement, dtype) : 0;
          for (const EngineReport& report : run.reports) {
            const std::string where =
                fmt::format("{} ranks, {}, {}, stage {}", world, name_of(dtype), name_of(codec), options.stage);
            EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << where;
            EXPECT_EQ(report.received_bytes_per_step, report.planned_sent_bytes) << where;
            EXPECT_DOUBLE_EQ(report.sent_formula_bytes, formula) << where;
            // If memory is short, each use gathers, as in the formula.
            const bool gathers_twice = options.device_memory.kind == MemoryBudget::Kind::kMin;
            if (options.stage < 3 || gathers_twice) {
              EXPECT_GE(static_cast<double>(report.sent_bytes_per_step), formula) << where;
            }
          }
        }
      }
    }
  }
}

TEST(UnitWire, KeepsShardsExactOutsideTraining) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .wire = {.gather = WireCodec::kInt4}});
    const int unit = model.unit_named("h.1");
    const auto values = [&](Use why) {
      const GatheredUnit held = model.engine().use(unit, why);
      const auto* const floats = reinterpret_cast<const float*>(held.data());
      return std::vector<float>(floats, floats + model.units()[static_cast<std::size_t>(unit)].numel);
    };
    const auto owned = [&] {
      std::vector<float> whole;
      model.engine().states().read_full_precision(unit, [&](std::span<const float> all) {
        whole.assign(all.begin(), all.begin() + model.units()[static_cast<std::size_t>(unit)].numel);
      });
      return whole;
    };
    model.train(0);
    const std::vector<float> trained = owned();
    EXPECT_EQ(values(Use::kUntraced), trained);
    EXPECT_NE(values(Use::kForward), trained) << "a step computes with decoded values";
    EXPECT_EQ(owned(), trained);
  });
}

// A write in the middle of a coded step is refused.
TEST(UnitWire, AllowsWritesOnlyBetweenSteps) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .wire = {.gather = WireCodec::kInt8}});
    const int unit = model.unit_named("h.1");
    {
      const GatheredUnit held = model.engine().use(unit, Use::kUntraced);
      reinterpret_cast<float*>(held.data())[2] = 5;
      held.mark_written();
    }
    EXPECT_EQ(model.weights_of("h.1.weight")[2], 5);
    {
      const GatheredUnit held = model.engine().use(unit, Use::kForward);
      const std::string message = message_of<ConfigError>([&] { held.mark_written(); });
      EXPECT_TRUE(says(message, "comm.gather_wire = int8: parameters of h.1 are written during a step")) << message;
    }
    EXPECT_EQ(model.weights_of("h.1.weight")[2], 5);
  });
}

TEST(UnitWireOnAnyDevice, SeesAnInfinityInContributions) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    on_ranks(2, [dtype](Communicator& comm) {
      ScriptedModel model(comm, small_specs(dtype), {.stage = 2, .wire = {.reduce = WireCodec::kInt4}});
      const int bad = model.param_named("h.1.weight");
      model.edit = [&, bad](int param, std::int64_t element, float value) {
        return param == bad && element == 5 && comm.rank() == 1 ? std::numeric_limits<float>::infinity() : value;
      };
      const auto before = model.weight_bits();
      const StepReport report = model.train(0);
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.reason, dtype == DType::kFloat32 ? SkipReason::kNonFinite : SkipReason::kOverflow);
      EXPECT_EQ(model.weight_bits(), before);
    });
  }
}

TEST(UnitWire, StagingIsInLedgerAndBudget) {
  const auto units = make_units(small_specs(), {});
  const std::int64_t slots = unit_wire_bytes(units, 2, kReduce8, /*minimum=*/false);
  EXPECT_EQ(slots, 2 * unit_wire_bytes(units, 2, kReduce8, /*minimum=*/true));
  EXPECT_EQ(slots, 2 * 2 * 2 * wire_bytes(WireCodec::kInt8, 4096, DType::kFloat32));
  AttachOptions options{.stage = 1};
  const auto staging = [&] {
    return scripted_run(2, small_specs(), options, {}).reports[0].peak_memory.device[MemoryTag::kStaging];
  };
  const std::int64_t without = staging();
  options.wire = kReduce8;
  EXPECT_EQ(staging(), without + slots);

  options.stage = 3;
  const std::int64_t generous = scripted_run(2, small_specs(), options, {}).reports[0].peak_memory_bytes.device;
  for (int quarter = 2; quarter <= 4; ++quarter) {
    options.device_memory = {MemoryBudget::Kind::kBytes, generous * quarter / 4};
    EXPECT_LE(scripted_run(2, small_specs(), options, {}).reports[0].peak_memory_bytes.device,
              options.device_memory.bytes);
  }
}

TEST(UnitWireOnAnyDevice, CopiesTrainAlikeAtEveryStage) {
  const AttachOptions options{.group = 2, .wire = kReduce8};
  const ScriptedRun expected = scripted_run(4, small_specs(), options, {});
  for (const AttachOptions& placed : at_all_stages(options)) {
    const ScriptedRun run = scripted_run(4, small_specs(), placed, {});
    EXPECT_EQ(run, expected) << placed.stage;
    for (const EngineReport& report : run.reports) EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
  }
}

TEST(UnitWireOnAnyDevice, CountsBytesByReceiverAndCodec) {
  const AttachOptions options{.group = 2, .wire = {.gather = WireCodec::kInt4, .reduce = WireCodec::kInt8}};
  for (const EngineReport& report : scripted_run(4, small_specs(), options, {}).reports) {
    const auto& [group, copies] = report.sent_by_codec;
    EXPECT_EQ(copies, (SentByCodec::Bytes{report.copies.sent_bytes_per_step, 0, 0, 0}));
    EXPECT_EQ(group[0], 0) << "every byte is coded";
    EXPECT_GT(group[1], 0);
    EXPECT_GT(group[2], group[1] / 2) << "units are gathered twice, with half the bytes";
    EXPECT_EQ(group[1] + group[2] + copies[0], report.sent_bytes_per_step);
  }
}

// All copies get the same shared weights.
TEST(UnitWireSlow, OuterStepsAreCodedAsPlanned) {
  for (const WireCodec codec : {WireCodec::kInt8, WireCodec::kInt4}) {
    AttachOptions options{.group = 2, .local = LocalSteps{.steps = 2}, .wire = {.outer = codec}};
    AttachOptions exact = options;
    exact.wire = {};
    const ScriptedRun uncoded = scripted_run(4, block_specs(DType::kFloat32), exact, {.steps = 2});
    const ScriptedRun expected = scripted_run(4, block_specs(DType::kFloat32), options, {.steps = 2});
    EXPECT_NE(expected.weights, uncoded.weights);
    ASSERT_EQ(expected.weights.size(), uncoded.weights.size());
    // Two steps of AdamW move a weight by at most 0.02. A copy's difference and the sum each err by one codec step.
    // Nesterov's momentum scales the error by 0.7 * 1.9.
    const double step = 0.02 * 2 / (codec == WireCodec::kInt8 ? 127 : 7);
    for (std::size_t i = 0; i < uncoded.weights.size(); ++i)
      ASSERT_NEAR(std::bit_cast<float>(expected.weights[i]), std::bit_cast<float>(uncoded.weights[i]), 2 * step) << i;
    for (const AttachOptions& placed : at_all_stages(options)) {
      const ScriptedRun run = scripted_run(4, block_specs(DType::kFloat32), placed, {.steps = 2});
      EXPECT_EQ(run.weights, expected.weights) << placed.stage;
      for (const EngineReport& report : run.reports) {
        EXPECT_EQ(report.outer.sent_between_copies, report.outer.planned_sent_between_copies) << placed.stage;
        EXPECT_EQ(report.outer.sent_bytes, report.outer.planned_sent_bytes) << placed.stage;
        EXPECT_NEAR(static_cast<double>(report.outer.sent_between_copies) / report.outer.formula_bytes, 1, 0.03);
      }
    }
  }
}

// The bits are equal at every stage. The bytes sent are the planned bytes.
TEST(UnitWire, CodedCopySumsKeepBits) {
  Sweep sweep(2);
  for (const int copies : {2, 3}) {
    for (const int group : {1, 2}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        AttachOptions options{.group = group, .optimizer = SgdOptions{}, .clip = 0.5, .accumulate = 2};
        const int world = group * copies;
        const ScriptedRun exact = scripted_run(world, block_specs(dtype), options, {});
        options.wire.outer = WireCodec::kInt8;
        const ScriptedRun expected = scripted_run(world, block_specs(dtype), options, {});
        EXPECT_NE(expected.weights, exact.weights);
        for (std::size_t i = 0; i < exact.weights.size() && dtype == DType::kFloat32; ++i)
          ASSERT_NEAR(std::bit_cast<float>(expected.weights[i]), std::bit_cast<float>(exact.weights[i]), 1e-3) << i;
        for (const AttachOptions& placed : at_all_stages(options)) {
          if (!sweep.takes_next()) continue;
          const ScriptedRun run = scripted_run(world, block_specs(dtype), placed, {});
          const std::string where =
              fmt::format("{} copies of {}, {}, stage {}", copies, group, name_of(dtype), placed.stage);
          EXPECT_EQ(run, expected) << where;
          for (const EngineReport& report : run.reports) {
            EXPECT_EQ(report.copies.sent_bytes_per_step, report.copies.planned_sent_bytes) << where;
            EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << where;
            const double formula = report.copies.sent_formula_bytes;
            EXPECT_GE(static_cast<double>(report.copies.sent_bytes_per_step), formula) << where;
            EXPECT_NEAR(static_cast<double>(report.copies.sent_bytes_per_step) / formula, 1, 0.1) << where;
          }
        }
      }
    }
  }
}

// A codec is refused if no bytes cross, or if only copies would exchange bytes.
TEST(UnitWireOnAnyDevice, NeedsBytesThatCross) {
  const auto refused = [](const AttachOptions& options, const std::string& reason) {
    const std::string message = message_of<ConfigError>([&] { require_wire(options, 4); });
    EXPECT_TRUE(says(message, reason)) << message;
  };
  refused({.stage = 2, .wire = kBoth4}, "comm.gather_wire = int4: at stage 2 a codec would round the parameters");
  refused({.group = 1, .wire = kReduce8}, "comm.reduce_wire = int8: each rank holds a whole copy of the model");
  refused({.local = LocalSteps{}, .wire = kReduce8}, "comm.reduce_wire = int8: each rank holds a whole copy");
  refused({.wire = {.outer = WireCodec::kInt8}},
          "comm.outer_wire = int8: the ranks hold one copy of the model, so no copies exchange gradients");
  refused({.group = 4, .wire = {.outer = WireCodec::kInt8}},
          "comm.outer_wire = int8: the ranks hold one copy of the model");
  refused({.sync = {.servers = 1}, .wire = kReduce8}, "comm.reduce_wire = int8: servers and workers exchange");
  EXPECT_NO_THROW(require_wire({.stage = 3, .wire = kBoth4}, 4));
  EXPECT_NO_THROW(require_wire({.stage = 3, .group = 2, .local = LocalSteps{}, .wire = kBoth4}, 4));
  EXPECT_NO_THROW(require_wire({.stage = 0, .group = 1, .wire = {.outer = WireCodec::kInt4}}, 4));
  EXPECT_NE(
      ends_of_ranks(
          2, [](Communicator& comm) { ScriptedModel model(comm, small_specs(), {.stage = 2, .wire = kBoth4}); })[0],
      "");
}

}  // namespace
}  // namespace zero
