// Copies of a model: several ranks hold each copy. All ranks together train the same bits as equally many ranks without
// copies.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/wire/engine_comms.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

ScriptedRun train(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options, int steps = 3) {
  return scripted_run(world, specs, options, {.steps = steps});
}

std::string name_of(const AttachOptions& options, DType dtype) {
  return fmt::format("group {}, stage {}{}, {}, {} micro-batches{}", options.group, options.stage,
                     options.device_memory.kind == MemoryBudget::Kind::kMin ? ", min" : "", name_of(dtype),
                     options.accumulate, options.reduce == Reduce::kLast ? ", last" : "");
}

TEST(CopiesSlowOnAnyDevice, MatchBitsOfNoCopies) {
  Sweep sweep(3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int accumulate : {1, 2}) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        AttachOptions options{.clip = 0.5, .reduce = reduce, .accumulate = accumulate};
        const ScriptedRun expected = train(4, small_specs(dtype), options);
        for (const int group : {1, 2, 4}) {
          options.group = group;
          for (const AttachOptions& placed : at_all_stages(options)) {
            if (!sweep.takes_next()) continue;
            EXPECT_EQ(train(4, small_specs(dtype), placed), expected) << name_of(placed, dtype);
          }
        }
      }
    }
  }
}

TEST(Copies, MoreThanTwoKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const ScriptedRun expected = train(6, small_specs(dtype), {.clip = 0.5, .accumulate = 2});
    for (const int group : {1, 2, 3}) {
      const AttachOptions options{.stage = group, .group = group, .clip = 0.5, .accumulate = 2};
      EXPECT_EQ(train(6, small_specs(dtype), options), expected) << name_of(options, dtype);
    }
  }
}

// The sum of a micro-batch begins while that of the one before, of the same unit, is in flight.
TEST(Copies, OneUnitHasItsNormOnce) {
  const std::vector<ParamSpec> specs{{.name = "wte", .shape = {40, 50}, .own_unit = true}};
  const AttachOptions options{.clip = 0.5, .accumulate = 3};
  const ScriptedRun expected = train(4, specs, options);
  for (int stage = 1; stage < 4; ++stage) {
    AttachOptions copies = options;
    copies.stage = stage;
    copies.group = 2;
    EXPECT_EQ(train(4, specs, copies), expected) << name_of(copies, DType::kFloat32);
  }
}

TEST(CopiesSlowOnAnyDevice, HaveThemWithEveryOptimizer) {
  std::vector<OptimizerOptions> optimizers = default_options();
  optimizers.insert(optimizers.end(), {SgdOptions{.momentum = 0.9}, LambOptions{.weight_decay = 0.1}});
  int stage = 0;
  for (const OptimizerOptions& optimizer : optimizers) {
    AttachOptions options{.stage = 3, .optimizer = optimizer, .clip = 0.5};
    const auto specs = block_specs(DType::kFloat32, {.embedding = {30, 11}, .second_block = {16, 15}, .frozen = 200});
    const ScriptedRun expected = train(4, specs, options);
    options.group = 2;
    options.stage = stage++ % 4;
    EXPECT_EQ(train(4, specs, options), expected)
        << std::string(name_of(optimizer)) + ", " + name_of(options, DType::kFloat32);
  }
}

TEST(Copies, AverageAndFp32SumsKeepBits) {
  AttachOptions options{.clip = 0.5, .accumulate = 2, .ema = 0.9, .reduce_dtype = DType::kFloat32};
  const ScriptedRun expected = train(4, small_specs(DType::kBFloat16), options);
  options.group = 2;
  for (const AttachOptions& placed : at_all_stages(options))
    EXPECT_EQ(train(4, small_specs(DType::kBFloat16), placed), expected) << name_of(placed, DType::kBFloat16);
}

// Many units are gathered while the last sum of the pass before is in flight, over the same ranks.
TEST(Copies, SumsEndBesideManyGathers) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 100; ++i) specs.push_back({.name = fmt::format("h.{}.weight", i), .shape = {40, 30}});
  AttachOptions options{.clip = 0.5, .accumulate = 3};
  const ScriptedRun expected = train(4, specs, options, 2);
  options.group = 2;
  options.device_memory = MemoryBudget::parse("1100KiB");
  EXPECT_EQ(train(4, specs, options, 2), expected);
}

class CopiesOnTiers : public testing::Test {
 protected:
  AttachOptions placed(AttachOptions options, const StateFractions& fractions) const {
    options.offload.fractions = fractions;
    options.offload.disk = {folder_.path().string()};
    return options;
  }
  TemporaryFolder folder_;
};
using CopiesOnTiersOnAnyDevice = CopiesOnTiers;

TEST_F(CopiesOnTiersOnAnyDevice, HaveTheSameBits) {
  const std::vector<StateFractions> places{
      {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.parameter = {.host = 0.5}, .gradient = {.host = 0.4, .disk = 0.3}, .optimizer = {.host = 0.5, .disk = 0.5}}};
  const auto specs = block_specs(DType::kBFloat16);
  for (const int accumulate : {1, 2}) {
    AttachOptions options{.clip = 0.5, .accumulate = accumulate};
    const ScriptedRun expected = train(4, specs, options, 2);
    options.group = 2;
    options.device_memory = MemoryBudget::parse(accumulate == 1 ? "auto" : "min");
    const ScriptedRun seen = train(4, specs, placed(options, places[static_cast<std::size_t>(accumulate - 1)]), 2);
    EXPECT_EQ(seen, expected) << name_of(options, DType::kBFloat16);
    EXPECT_GT(seen.reports[3].memory.disk.state(), 0);
  }
}

TEST_F(CopiesOnTiers, MayHaveDelayedUpdates) {
  AttachOptions options{.stage = 2, .clip = 0.5, .delayed_update = true, .exact_steps = 1};
  const ScriptedRun expected = train(4, small_specs(), options, 4);
  options.group = 2;
  EXPECT_EQ(train(4, small_specs(), options, 4), expected) << "stage 2";
  options.stage = 3;
  EXPECT_EQ(train(4, small_specs(), placed(options, {.gradient = {.disk = 1}, .optimizer = {.disk = 1}}), 4), expected)
      << "stage 3, on disk";
}

TEST(Copies, HoldStatesOfOneCopysRank) {
  for (const AttachOptions& two : at_all_stages({.accumulate = 2})) {
    AttachOptions grouped = two;
    grouped.group = 2;
    const ScriptedRun of_two = train(2, small_specs(DType::kBFloat16), two),
                      of_four = train(4, small_specs(DType::kBFloat16), grouped);
    for (const EngineReport& report : of_four.reports) {
      EXPECT_EQ(report.memory.device.state(), of_two.reports[0].memory.device.state())
          << name_of(grouped, DType::kBFloat16);
      EXPECT_EQ(report.state_formula_bytes, of_two.reports[0].state_formula_bytes);
    }
  }
}

// Copies also hold partial sums that move between them: those of the largest unit, in fp32.
TEST(Copies, StageOneBlockPerActiveSum) {
  const auto units = make_units(small_specs(DType::kBFloat16), {});
  std::int64_t largest = 0;
  for (const Unit& unit : units)
    if (unit.trainable) largest = std::max(largest, shard_numel(unit, 2) * 4);
  const auto staging = [&](int world, int group, const char* memory) {
    const AttachOptions options{.stage = 0, .group = group, .device_memory = MemoryBudget::parse(memory)};
    return train(world, small_specs(DType::kBFloat16), options).reports[0].peak_memory.device[MemoryTag::kStaging];
  };
  EXPECT_EQ(staging(2, 0, "auto"), 0) << "at stage 0 only sums are staged";
  EXPECT_EQ(staging(4, 2, "auto"), 2 * largest);
  EXPECT_EQ(staging(4, 2, "min"), largest);
}

TEST(CopiesSlow, KeepABudgetInBytes) {
  for (const WireCodec codec : {WireCodec::kNone, WireCodec::kInt8}) {
    AttachOptions options{.stage = 3, .group = 2, .wire = {.outer = codec}};
    const std::int64_t generous = train(4, small_specs(), options).reports[0].peak_memory_bytes.device;
    options.device_memory = MemoryBudget::parse("min");
    const std::int64_t least = train(4, small_specs(), options).reports[0].peak_memory_bytes.device;
    ASSERT_LT(least, generous);
    for (int quarter = 0; quarter <= 4; ++quarter) {
      options.device_memory = {MemoryBudget::Kind::kBytes, least + (generous - least) * quarter / 4};
      EXPECT_LE(train(4, small_specs(), options).reports[0].peak_memory_bytes.device, options.device_memory.bytes)
          << quarter << ", " << name_of(codec);
    }
  }
}

// Gathers and sums stay within a copy. The first and the last copy send a shard once, other copies send it twice. The
// plan and the formula agree.
TEST(Copies, SendPlannedBytes) {
  for (const int copies : {2, 3}) {
    for (const int accumulate : {1, 2}) {
      for (const AttachOptions& of_one : at_all_stages({.reduce = Reduce::kEach, .accumulate = accumulate})) {
        AttachOptions options = of_one;
        options.group = 2;
        const std::int64_t within = train(2, small_specs(DType::kBFloat16), of_one).reports[0].sent_bytes_per_step;
        const ScriptedRun seen = train(2 * copies, small_specs(DType::kBFloat16), options);
        const auto units = make_units(small_specs(DType::kBFloat16), {});
        const Mesh mesh{.shard = 2, .copies = copies};
        std::int64_t all = 0;
        for (int rank = 0; rank < 2 * copies; ++rank) {
          const EngineReport& report = seen.reports[static_cast<std::size_t>(rank)];
          std::int64_t crossing = 0;
          for (const Unit& unit : units) crossing += accumulate * sent_between_copies(unit, mesh, mesh.copy_of(rank));
          EXPECT_EQ(report.copies.number, copies);
          EXPECT_EQ(report.copies.sent_bytes_per_step, crossing)
              << name_of(options, DType::kBFloat16) << ", rank " << rank;
          EXPECT_EQ(report.copies.planned_sent_bytes, crossing);
          EXPECT_EQ(report.sent_bytes_per_step, within + crossing) << name_of(options, DType::kBFloat16);
          EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
          EXPECT_EQ(report.received_bytes_per_step, report.planned_sent_bytes);
          all += crossing;
        }
        Placement placement = place(options.stage, options.reduce, accumulate);
        placement.copies = copies;
        EXPECT_EQ(all / (2 * copies), sent_between_copies(units, mesh, placement)) << "on average over ranks";
        const double formula = seen.reports[0].copies.sent_formula_bytes;
        EXPECT_GT(formula, 0);
        EXPECT_GE(static_cast<double>(all) / (2 * copies), formula) << "padding is sent in addition";
      }
    }
  }
}

// Only one copy has the infinity.
TEST(Copies, InfinityMakesAllCopiesSkip) {
  for (const int stage : {0, 3}) {
    on_ranks(4, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .group = 2});
      const int bad = model.param_named("h.1.weight");
      const int victim = 3;
      model.edit = [&, bad](int param, std::int64_t element, float value) {
        const bool here = param == bad && element == 5 && comm.rank() == victim;
        return here ? std::numeric_limits<float>::infinity() : value;
      };
      const auto before = model.weight_bits();
      const StepReport report = model.train(0);
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.bad_parameter, "h.1.weight");
      EXPECT_EQ(model.weight_bits(), before);
    });
  }
}

TEST(Copies, ClipByTheGlobalNorm) {
  const AttachOptions clipped{.stage = 3, .clip = 0.5};
  AttachOptions grouped = clipped;
  grouped.group = 2;
  const ScriptedRun one = train(4, small_specs(), clipped), two = train(4, small_specs(), grouped);
  EXPECT_EQ(two, one);
  for (const double norm : one.norms) EXPECT_GT(norm, 0.5) << "the test must clip";
}

struct Gradients {
  std::vector<float> second_unit;
  std::vector<double> norms;
};

Gradients gradients_of(int group) {
  Gradients gradients;
  on_ranks(4, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2, .group = group});
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    Gradients mine;
    model.engine().gradients().read(1, [&](std::span<const float> whole) {
      mine.second_unit.assign(whole.begin(), whole.begin() + model.units()[1].numel);
    });
    mine.norms = model.engine().gradients().norms();
    if (comm.rank() == 3) gradients = mine;
    model.engine().step(0.01);
  });
  return gradients;
}

TEST(Copies, TellGradientsAsTheyAre) {
  const Gradients expected = gradients_of(0);
  for (const int group : {1, 2}) {
    const Gradients seen = gradients_of(group);
    EXPECT_EQ(seen.second_unit, expected.second_unit) << group;
    EXPECT_EQ(seen.norms, expected.norms) << group;
  }
}

// Only ranks 1, 3 and 5 hold the shard that differs.
TEST(Copies, DifferingShardIsFoundAndNamed) {
  for (const int stage : {0, 1, 3}) {
    on_ranks(6, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16), {.stage = stage, .group = 2});
      model.train(0);
      const ReplicaCheck clean = model.engine().states().compare_replicas();
      EXPECT_TRUE(clean.compared);
      EXPECT_TRUE(clean.same()) << clean.describe();
      const int unit = model.unit_named("h.1");
      model.engine().states().pause();
      if (comm.rank() == 3)
        model.engine().states().write_held(unit, 1, [](std::int64_t, std::span<float> out) { out[0] = 3; });
      const ReplicaCheck check = model.engine().states().compare_replicas();
      EXPECT_EQ(check.ranks, std::vector{3}) << check.describe();
      EXPECT_EQ(check.unit, unit);
    });
  }
}

TEST(Copies, EveryRankRefusesUnevenGroups) {
  const auto ends =
      ends_of_ranks(4, [](Communicator& comm) { ScriptedModel model(comm, small_specs(), {.group = 3}); });
  for (const std::string& end : ends) {
    EXPECT_TRUE(says(end, "zero.group")) << end;
    EXPECT_TRUE(says(end, "one of 1, 2, 4")) << end;
  }
}

TEST(Copies, OneCopyIsTheRun) {
  for (const int group : {0, 2}) {
    on_ranks(2, [group](Communicator& comm) {
      const EngineComms comms(comm, group);
      EXPECT_EQ(&comms.copy, &comm);
      EXPECT_EQ(comms.across, nullptr);
      EXPECT_EQ(comms.sent_between_copies(), 0);
    });
  }
}

}  // namespace
}  // namespace zero
