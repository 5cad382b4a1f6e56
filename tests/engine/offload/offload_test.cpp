// Law 2 for placements: a run has the same bits wherever its states are stored.
#include <filesystem>

#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/placer.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/memory/failing_calls.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Case {
  int world = 2;
  int stage = 3;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  Reduce reduce = Reduce::kEach;
};

std::string name_of(const Case& c) {
  return fmt::format("{} ranks, stage {}, {}, {} micro-batches, reduce {}", c.world, c.stage, name_of(c.dtype),
                     c.accumulate, c.reduce == Reduce::kEach ? "each" : "last");
}

// `departs`: in the last step one unit gets no gradient, and its moments must not change.
ScriptedRun train(const Case& c, const OffloadOptions& offload, MemoryBudget device = {}, bool departs = true,
                  const TierRates& rates = {}) {
  constexpr int kSteps = 3;
  const auto before = [departs](ScriptedModel& model, int step) {
    const bool absent = departs && step == kSteps - 1;
    const int first = model.param_named("h.0.weight");
    model.has_gradient = [absent, first](int param) { return !absent || (param != first && param != first + 1); };
  };
  return scripted_run(c.world, block_specs(c.dtype),
                      {.stage = c.stage,
                       .clip = 1.5,
                       .reduce = c.reduce,
                       .accumulate = c.accumulate,
                       .device_memory = device,
                       .offload = offload},
                      {.steps = kSteps, .before = before, .host = {.rates = rates}});
}

// The part of `wanted` that this case may move off the device.
StateFractions allowed(const Case& c, StateFractions wanted) {
  if (c.stage < 3) wanted.parameter = {};
  if (c.stage < 2 || (c.accumulate > 1 && c.reduce == Reduce::kLast)) wanted.gradient = {};
  return wanted;
}

class Offload : public testing::Test {
 protected:
  OffloadOptions placed(const StateFractions& fractions) const {
    return {.fractions = fractions, .disk = {folder_.path().string()}};
  }
  TemporaryFolder folder_;
};
using OffloadSlowOnAnyDevice = Offload;

TEST_F(OffloadSlowOnAnyDevice, EveryPlacementMatchesDeviceBits) {
  const std::vector<StateFractions> placements{
      {.optimizer = {.host = 1}},
      {.optimizer = {.disk = 1}},
      {.gradient = {.host = 1}, .optimizer = {.host = 0.6, .disk = 0.4}},
      {.gradient = {.disk = 1}, .optimizer = {.host = 0.3, .disk = 0.3}},
      {.parameter = {.host = 1}, .gradient = {.host = 0.5}, .optimizer = {.host = 1}},
      {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.parameter = {.host = 0.4, .disk = 0.35}, .gradient = {.host = 0.2, .disk = 0.3}, .optimizer = {.disk = 0.45}},
  };
  // Each cell has two placements, one of them at stage 3. Every placement is combined with every world, type and way to
  // reduce.
  std::size_t next = 0;
  Sweep sweep(5);
  for (const int world : {1, 2, 3, 4}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const auto& [accumulate, reduce] : {std::pair{1, Reduce::kEach}, {3, Reduce::kEach}, {3, Reduce::kLast}}) {
        if (!sweep.takes_next()) {
          next += 2;
          continue;
        }
        const ScriptedRun resident = train({world, 0, dtype, accumulate, reduce}, {});
        for (const int stage : {3, static_cast<int>(next / 2 % 4)}) {
          const Case c{world, stage, dtype, accumulate, reduce};
          const std::size_t i = next++ % placements.size();
          const MemoryBudget device{next % 3 == 0 ? MemoryBudget::Kind::kAuto : MemoryBudget::Kind::kMin};
          OffloadOptions offload = placed(allowed(c, placements[i]));
          if (next % 5 < 2) offload.link_bytes_per_second = 4e9;
          const ScriptedRun seen = train(c, offload, device);
          EXPECT_EQ(seen.weights, resident.weights) << name_of(c) << ", placement " << i;
          EXPECT_EQ(seen.norms, resident.norms) << name_of(c) << ", placement " << i;
          EXPECT_EQ(seen.checksums, resident.checksums) << name_of(c) << ", placement " << i;
        }
      }
    }
  }
}
using OffloadSlow = Offload;

TEST_F(OffloadSlow, TiersHoldTheEstimatedBytes) {
  const StateFractions fractions{
      .parameter = {.host = 0.25, .disk = 0.25}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.25, .disk = 0.5}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Case c{.world = 2, .dtype = dtype};
    const std::vector<EngineReport> reports = train(c, placed(fractions)).reports;
    const auto units = make_units(block_specs(dtype), {});
    Placement placement = place(c.stage, c.reduce, c.accumulate);
    spread_over_tiers(placement, units, c.world, fractions);
    for (const EngineReport& report : reports) {
      const auto expect = [&](const MemoryCount& held, Tier tier) {
        const StateBytes wanted = state_bytes(units, c.world, placement, fp32_states(2), tier);
        EXPECT_EQ(held[MemoryTag::kParameter], wanted.parameter) << name_of(tier);
        EXPECT_EQ(held[MemoryTag::kGradient], wanted.gradient) << name_of(tier);
        EXPECT_EQ(held[MemoryTag::kMaster], wanted.master) << name_of(tier);
        EXPECT_EQ(held[MemoryTag::kMoment], wanted.moment) << name_of(tier);
        EXPECT_GT(held.state(), 0) << name_of(tier);
      };
      for (const Tier tier : kAllTiers) expect(report.memory[tier], tier);
    }
  }
}

TEST_F(OffloadSlowOnAnyDevice, DiskBytesMoveOnceEachWay) {
  const std::vector<EngineReport> reports = train({.world = 2, .stage = 2}, placed({.optimizer = {.disk = 1}})).reports;
  for (const EngineReport& report : reports) {
    // In the last step of train() one unit is not updated, and its states are not even read.
    EXPECT_LT(report.requests_per_step.disk.read_bytes, report.memory.disk.state());
    EXPECT_GT(report.requests_per_step.disk.read_bytes, report.memory.disk.state() / 2);
    EXPECT_EQ(report.requests_per_step.disk.read_bytes, report.requests_per_step.disk.written_bytes);
  }
}

// The link carries gradients down and parameters up.
TEST_F(OffloadSlowOnAnyDevice, LinkCarriesGradientsAndParameters) {
  OffloadOptions offload = placed({.optimizer = {.host = 1}});
  offload.link_bytes_per_second = 4e9;
  const std::vector<EngineReport> reports = train({.dtype = DType::kBFloat16}, offload).reports;
  for (const EngineReport& report : reports) {
    EXPECT_GT(report.link_per_step.down_bytes, 0);
    EXPECT_GT(report.link_per_step.up_bytes, 0);
    // Per trainable element, at most the gradient and the old parameter go down, and the new parameter goes up. Each
    // has two bytes.
    EXPECT_LE(report.link_per_step.up_bytes, report.memory.device[MemoryTag::kParameter]);
    EXPECT_LE(report.link_per_step.down_bytes, 2 * report.memory.device[MemoryTag::kParameter]);
  }
}

// At every stage, whole parameters and gradients also cross the link if the host updates them.
TEST_F(OffloadSlowOnAnyDevice, LinkMatchesTheStepModel) {
  constexpr double kRate = 64e9;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(fmt::format("stage {}, {}", stage, name_of(dtype)));
      OffloadOptions offload = placed({.optimizer = {.host = 0.5}});
      offload.link_bytes_per_second = kRate;
      const Case c{.stage = stage, .dtype = dtype};
      const std::vector<EngineReport> reports = train(c, offload, {}, /*departs=*/false).reports;
      StepModel model{.units = make_units(block_specs(dtype), {}), .world = c.world};
      model.placement = place(stage, c.reduce, c.accumulate);
      model.rates = {.link_up = kRate, .link_down = kRate};
      Placement placed = model.placement;
      spread_over_tiers(placed, model.units, c.world, offload.fractions);
      std::vector<UnitTiers> tiers;
      for (const Unit& unit : model.units) tiers.push_back(tiers_of(placed, unit, c.world));
      const auto update = predict(model, tiers).busy[static_cast<std::size_t>(StepPhase::kUpdate)];
      for (const EngineReport& report : reports) {
        const auto up = static_cast<double>(report.link_per_step.up_bytes);
        const auto down = static_cast<double>(report.link_per_step.down_bytes);
        EXPECT_NEAR(up, kRate * update[static_cast<std::size_t>(Resource::kLinkUp)], 1) << "parameters";
        if (stage == 3 && dtype == DType::kBFloat16) continue;  // here, parameters that are only written also go down
        EXPECT_NEAR(down, kRate * update[static_cast<std::size_t>(Resource::kLinkDown)], 1) << "gradients";
      }
    }
  }
}

// The unit has ten tiles and a rest. Reads ahead, updates and later writes overlap, and keep within the host memory
// that the plan states.
TEST_F(OffloadSlowOnAnyDevice, LargeUnitStreamsThroughFewTiles) {
  const std::vector<ParamSpec> large{{.name = "h.0.w", .shape = {1500, 1800}}, {.name = "h.1.w", .shape = {700, 900}}};
  const auto run = [&](const OffloadOptions& offload, EngineReport* report) {
    std::vector<std::uint32_t> bits;
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, large, {.stage = 3, .clip = 1, .offload = offload});
      for (int step = 0; step < 3; ++step) model.train(step);
      bits = model.weight_bits();
      *report = model.engine().report();
    });
    return bits;
  };
  EngineReport report;
  const auto expected = run({}, &report);
  const StateFractions all_on_disk{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
  for (const MemoryBudget::Kind kind : {MemoryBudget::Kind::kAuto, MemoryBudget::Kind::kMin}) {
    OffloadOptions offload = placed(all_on_disk);
    offload.host_memory.kind = kind;
    offload.checksums = true;
    EXPECT_EQ(run(offload, &report), expected);
    const auto units = make_units(large, {});
    Placement placement = place(3, Reduce::kEach, 1);
    spread_over_tiers(placement, units, 1, all_on_disk);
    const int depth = kind == MemoryBudget::Kind::kMin ? 1 : OffloadTiers::kDefaultDepth;
    EXPECT_LE(report.peak_memory.host.total(), tile_bytes(units, 1, placement, fp32_states(2), depth));
    EXPECT_EQ(report.memory.host.state(), 0);
  }
}

// A rank writes into a gathered unit while a late peer still reads this rank's part of it.
TEST_F(OffloadSlow, WritesWaitForReadingPeers) {
  OffloadOptions offload = placed({.parameter = {.host = 1}});
  on_ranks(3, [&](Communicator& comm) {
    ScriptedModel model(comm, block_specs(DType::kFloat32), {.stage = 3, .offload = offload});
    for (int round = 0; round < 20; ++round) {
      for (const Unit& unit : model.units()) {
        const GatheredUnit in_use = model.engine().use(unit.index, Use::kUntraced);
        auto* values = reinterpret_cast<float*>(in_use.data());
        in_use.mark_written();
        const float first = values[0];
        for (std::int64_t i = 0; i < unit.numel; ++i) values[i] = first + static_cast<float>(round);
      }
    }
    for (const Unit& unit : model.units()) {
      model.engine().states().read_full_precision(unit.index, [&](std::span<const float> whole) {
        for (std::int64_t i = 1; i < unit.numel; ++i) ASSERT_EQ(whole[static_cast<std::size_t>(i)], whole[0]) << i;
      });
    }
  });
}

TEST_F(OffloadSlow, BudgetsChooseTheBestPlacement) {
  const Case c{.world = 2};
  const auto units = make_units(block_specs(c.dtype), {});
  const Placement resident = place(c.stage, c.reduce, c.accumulate);
  const std::int64_t states = state_bytes(units, c.world, resident, fp32_states(2)).total();
  const MemoryBudget half{MemoryBudget::Kind::kBytes,
                          states / 2 + working_bytes(units, c.world, resident, /*min_budget=*/true)};
  const ScriptedRun expected = train(c, {}, {}, /*departs=*/false);

  OffloadOptions to_host;
  to_host.host_memory = {MemoryBudget::Kind::kBytes, states};
  OffloadOptions to_disk;
  to_disk.host_memory.kind = MemoryBudget::Kind::kMin;
  to_disk.disk = {folder_.path().string()};
  for (const OffloadOptions& offload : {to_host, to_disk}) {
    const ScriptedRun run = train(c, offload, half, /*departs=*/false);
    EXPECT_EQ(run, expected);
    for (const EngineReport& report : run.reports) {
      const MemoryCount& away = offload.disk.empty() ? report.memory.host : report.memory.disk;
      EXPECT_GT(away.state(), 0);
      EXPECT_LE(report.memory.device.state(), half.bytes);
      EXPECT_LE(report.peak_memory_bytes.device, half.bytes);
    }
    // If the device has enough room, no state leaves it.
    const ScriptedRun roomy = train(c, offload, {MemoryBudget::Kind::kBytes, 4 * states});
    for (const EngineReport& report : roomy.reports)
      EXPECT_EQ(report.memory.host.total() + report.memory.disk.total(), 0);
  }
  to_host.automatic = false;
  EXPECT_THROW(train(c, to_host, half), Error) << "states that must stay do not fit";
}

// By default the host may use all memory that the device's budget leaves free on the machine.
TEST_F(OffloadSlowOnAnyDevice, HostFillsBeforeTheDisk) {
  const Case c{.world = 2};
  const auto units = make_units(block_specs(c.dtype), {});
  const Placement resident = place(c.stage, c.reduce, c.accumulate);
  const MemoryBudget half{MemoryBudget::Kind::kBytes,
                          state_bytes(units, c.world, resident, fp32_states(2)).total() / 2 +
                              working_bytes(units, c.world, resident, /*min_budget=*/true)};
  const ScriptedRun expected = train(c, {}, {}, /*departs=*/false);
  for (const auto& [has_disk, link] : {std::pair{false, 0.0}, {true, 0.0}, {false, 4e9}, {true, 4e9}}) {
    OffloadOptions offload;
    if (has_disk) offload.disk = {folder_.path().string()};
    offload.link_bytes_per_second = link;
    const TierRates rates{
        .link_up = 4e9, .link_down = 4e9, .requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};
    const ScriptedRun run = train(c, offload, half, /*departs=*/false, rates);
    EXPECT_EQ(run, expected);
    for (const EngineReport& report : run.reports) {
      EXPECT_GT(report.memory.host.state(), 0);
      EXPECT_EQ(report.memory.disk.state(), 0) << "the host has enough room";
      EXPECT_LE(report.peak_memory_bytes.device, half.bytes);
    }
  }
}

TEST_F(OffloadSlowOnAnyDevice, MinimumDeviceHoldsOnlyFixedStates) {
  const ScriptedRun expected = train({}, {}, {}, /*departs=*/false);
  OffloadOptions offload;
  offload.disk = {folder_.path().string()};
  const ScriptedRun run = train({}, offload, {MemoryBudget::Kind::kMin}, /*departs=*/false);
  EXPECT_EQ(run, expected);
  for (const EngineReport& report : run.reports) {
    EXPECT_EQ(report.memory.device.state(), 0);
    EXPECT_GT(report.memory.disk.state(), 0);
  }
  offload.disk_memory = 512 << 10;  // states that the disk has no room for stay
  const ScriptedRun full = train({}, offload, {MemoryBudget::Kind::kMin}, /*departs=*/false);
  EXPECT_EQ(full, expected);
  for (const EngineReport& report : full.reports) {
    EXPECT_GT(report.memory.device.state(), 0);
    EXPECT_GT(report.memory.disk.state(), 0);
    EXPECT_LE(report.memory.disk.state(), offload.disk_memory);
  }
}

// Simulates so many ranks on this machine that almost no memory is free for each.
constexpr int kCrowd = 1 << 26;

TEST_F(OffloadSlow, RefusalNamesBudgetMachineAndDisk) {
  const auto units = make_units(block_specs(DType::kFloat32), {});
  const Placement resident = place(3, Reduce::kAuto, 1);
  const MemoryBudget half{MemoryBudget::Kind::kBytes, state_bytes(units, 1, resident, fp32_states(2)).total() / 2 +
                                                          working_bytes(units, 1, resident, /*min_budget=*/true)};
  on_ranks(1, [&](Communicator& comm) {
    const std::string text = message_of<ConfigError>([&] {
      ScriptedModel(comm, block_specs(DType::kFloat32), {.stage = 3, .device_memory = half}, {.local_world = kCrowd});
    });
    for (const char* words : {"zero.device_memory", "and the host for", "set a disk"})
      EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
  });
}

TEST_F(OffloadSlow, RefusesBudgetsBeyondFreeMemory) {
  on_ranks(1, [&](Communicator& comm) {
    const auto units = make_units(block_specs(DType::kFloat32), {});
    const auto placed = [&](MemoryBudget memory, int local_world) {
      const AttachOptions options{.stage = 3, .device_memory = memory};
      Placer(&comm, {}, options, units, *make_update_rule(options.optimizer), {.local_world = local_world});
    };
    const MemoryBudget large{MemoryBudget::Kind::kBytes, std::int64_t{1} << 45};
    for (const MemoryBudget memory : {large, MemoryBudget{MemoryBudget::Kind::kMin}}) {
      const std::string text = message_of<ConfigError>([&] { placed(memory, kCrowd); });
      for (const char* words : {"zero.device_memory", "a rank would hold", "are free for a rank", "set zero.disk"})
        EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
      EXPECT_NO_THROW(placed(memory, 1)) << "a budget above the need is allowed if the need fits";
    }
  });
}

// The folder has 2 MiB, like a small tmpfs. The states take 32 MiB, and the device has room for 4. The rates are given,
// so no probe runs.
TEST_F(OffloadSlowOnAnyDevice, SmallFolderNamesItsFreeSpace) {
  FailingCalls calls;
  calls.free_bytes = 2 << 20;
  const DiskSeam seam{.files = &calls};
  const std::vector<ParamSpec> large{{.name = "h.0.w", .shape = {1 << 20}}, {.name = "h.1.w", .shape = {1 << 20}}};
  on_ranks(1, [&](Communicator& comm) {
    OffloadOptions offload{.host_memory = {MemoryBudget::Kind::kMin}, .disk = {folder_.path().string()}};
    const TierRates rates{.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};
    const auto refusal = [&] {
      return message_of<ConfigError>([&] {
        ScriptedModel(comm, large,
                      {.stage = 3, .device_memory = {MemoryBudget::Kind::kBytes, 20 << 20}, .offload = offload},
                      {.rates = rates, .seams = {.disk_seam = &seam}});
      });
    };
    const std::string text = refusal();
    for (const std::string& words : {folder_.path().string() + ": a rank may take 1887435 B there (1.80 MiB;",
                                     std::string("B more"), std::string("or set another folder (zero.disk)")})
      EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
    EXPECT_EQ(text.find("zero.disk_memory"), std::string::npos) << "no budget is too small: " << text;
    offload.disk_memory = 1 << 20;
    EXPECT_NE(refusal().find("raise zero.disk_memory by"), std::string::npos)
        << "zero.disk_memory is too small: " << refusal();
  });
}

// The probe uses no more than the free space of a small disk. The states that fit are placed there.
TEST_F(OffloadSlowOnAnyDevice, ASmallFolderTakesWhatFits) {
  FailingCalls calls;
  calls.free_bytes = 2 << 20;
  const DiskSeam seam{.files = &calls};
  on_ranks(2, [&](Communicator& comm) {
    OffloadOptions offload{.fractions = {.optimizer = {.disk = 1}}, .disk = {folder_.path().string()}};
    EXPECT_NO_THROW(ScriptedModel(comm, block_specs(DType::kFloat32), {.stage = 3, .offload = offload},
                                  {.seams = {.disk_seam = &seam}}));
  });
}

TEST_F(OffloadSlowOnAnyDevice, LeavesNothingInTheFolder) {
  train({}, placed({.optimizer = {.disk = 1}}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(OffloadSlowOnAnyDevice, RefusesImpossiblePlacementByKey) {
  const auto refusal = [](const Case& c, const OffloadOptions& offload) {
    std::string key;
    on_ranks(1, [&](Communicator& comm) {
      try {
        ScriptedModel(comm, block_specs(c.dtype), {.stage = c.stage, .offload = offload});
      } catch (const ConfigError& error) {
        key = error.key();
      }
    });
    return key;
  };
  EXPECT_EQ(refusal({.stage = 2}, placed({.parameter = {.host = 1}})), "zero.parameter");
  EXPECT_EQ(refusal({.stage = 1}, placed({.gradient = {.host = 1}})), "zero.gradient");
  EXPECT_EQ(refusal({}, {.fractions = {.optimizer = {.disk = 1}}}), "zero.disk") << "no folder is named";
  OffloadOptions small = placed({.optimizer = {.disk = 1}});
  small.disk_memory = 1000;
  EXPECT_EQ(refusal({}, small), "zero.disk_memory");
  OffloadOptions tight = placed({.optimizer = {.host = 1}});
  tight.host_memory = {MemoryBudget::Kind::kBytes, 1000};
  EXPECT_EQ(refusal({}, tight), "zero.host_memory");
}

}  // namespace
}  // namespace zero
