// State mover: states are placed again after the model's computation has been measured, or when a program asks for it.
// The bits do not change.
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_run.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

// Four units of 256 KiB, in fp32, so a gradient is a quarter of all states.
std::vector<ParamSpec> four_units() {
  std::vector<ParamSpec> specs;
  for (const char* name : {"h.0.weight", "h.1.weight", "h.2.weight", "h.3.weight"})
    specs.push_back({.name = name, .shape = {256, 256}});
  return specs;
}

// A fifth of all states must be on disk. With two micro-batches, a gradient on disk is written twice and read twice,
// moments once each. So moments are moved first, until the engine measures that a backward pass takes far longer than
// its transfers.
class Learning : public testing::Test {
 protected:
  ScriptedRun run(int steps, bool resident = false, bool monitor = true) const {
    const auto specs = four_units();
    const auto units = make_units(specs, {});
    const Placement placement = place(3, Reduce::kEach, 2);
    const std::int64_t states = state_bytes(units, 2, placement, fp32_states(2)).total();
    AttachOptions options{.stage = 3, .reduce = Reduce::kEach, .accumulate = 2};
    if (!resident) {
      options.device_memory = {MemoryBudget::Kind::kBytes,
                               states * 4 / 5 + working_bytes(units, 2, placement, /*min_budget=*/true)};
      options.offload.host_memory.kind = MemoryBudget::Kind::kMin;
      options.offload.disk = {folder_.path().string()};
      options.offload.monitor.on = monitor;
    }
    const auto before = [](ScriptedModel& model, int) {
      model.has_gradient = [](int) {
        // The computation is long compared with transfers at these rates. It takes at least this long, and the results
        // do not depend on delays of a busy machine.
        std::this_thread::sleep_for(milliseconds(40));
        return true;
      };
    };
    const TierRates rates{.requests = {.disk = {.read = 4e6, .write = 4e6}}, .update_numel = 1e9};
    EngineHost host;
    if (!resident) {
      host.rates = rates;
      host.seams.read_memory = [] { return MemoryReading{.free_bytes = std::int64_t{1} << 40}; };
    }
    return scripted_run(2, specs, options, {.steps = steps, .before = before, .host = host});
  }
  TemporaryFolder folder_;
};
using LearningSlow = Learning;

// A backward pass hides the transfer of these states.
TEST_F(LearningSlow, HiddenStatesReplaceVisibleOnDisk) {
  const ScriptedRun expected = run(5, /*resident=*/true);
  for (const bool monitor : {true, false}) {
    const ScriptedRun before = run(2, false, monitor), after = run(5, false, monitor);
    EXPECT_EQ(after, expected);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const EngineReport &first = before.reports[rank], &last = after.reports[rank];
      EXPECT_EQ(first.memory.disk[MemoryTag::kGradient], 0);
      EXPECT_GT(first.memory.disk[MemoryTag::kMoment], 0);
      EXPECT_EQ(first.replans, 0);
      EXPECT_GT(last.memory.disk[MemoryTag::kGradient], 0);
      EXPECT_LT(last.memory.disk[MemoryTag::kMoment], first.memory.disk[MemoryTag::kMoment]);
      EXPECT_LE(last.memory.device.state(), first.memory.device.state()) << "no more on the device than before";
      EXPECT_EQ(last.replans, 1);
      EXPECT_GT(last.moved_bytes, 0);
      EXPECT_LT(last.predicted.busy[2][static_cast<std::size_t>(requests_of(Tier::kDisk))],
                first.predicted.busy[2][static_cast<std::size_t>(requests_of(Tier::kDisk))]);
    }
  }
}

TEST_F(LearningSlow, AReportSaysWhatWasLearned) {
  const ScriptedRun trained = run(3);
  const StepProfile& profile = trained.reports[0].profile;
  EXPECT_GE(profile.backward_seconds, 2 * 4 * 0.040) << "two passes use four units";
  EXPECT_GT(profile.forward_seconds, 0);
  ASSERT_EQ(profile.gradient_at.size(), 4U);
  EXPECT_EQ(profile.gradient_at[0], 1);
  for (std::size_t unit = 0; unit < 3; ++unit)
    EXPECT_GT(profile.gradient_at[unit], profile.gradient_at[unit + 1]) << "a backward pass begins with the last unit";
  EXPECT_EQ(profile.used_at[0], 0);
  EXPECT_EQ(profile.forward_gathers.size(), 4U);
}

TEST_F(LearningSlow, PredictionIncludesComputationAndExchange) {
  const EngineReport untrained = run(0).reports[0];
  const auto compute = [](const EngineReport& report, StepPhase phase) {
    return report.predicted.busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(Resource::kCompute)];
  };
  EXPECT_EQ(compute(untrained, StepPhase::kBackward), 0);
  EXPECT_EQ(untrained.predicted.bound(), requests_of(Tier::kDisk));
  EXPECT_GT(untrained.state_bytes[Tier::kDisk], 0);
  EXPECT_TRUE(untrained.movable);
  const EngineReport trained = run(4).reports[0];
  EXPECT_GT(compute(trained, StepPhase::kForward), trained.profile.forward_seconds);
  EXPECT_GT(compute(trained, StepPhase::kBackward), trained.profile.backward_seconds);
  EXPECT_GT(trained.predicted.total(), untrained.predicted.total());
}

// An engine that keeps its states in memory, and may move them to a disk.
class OffloadedStates : public testing::Test {
 protected:
  AttachOptions options(int stage, int accumulate = 1) const {
    AttachOptions with_disk{.stage = stage, .clip = 1, .accumulate = accumulate};
    with_disk.offload.disk = {folder_.path().string()};
    with_disk.offload.checksums = true;
    return with_disk;
  }
  static EngineHost host() {
    EngineHost host{.rates = {.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9}};
    host.seams.read_memory = [] { return MemoryReading{.free_bytes = std::int64_t{1} << 40}; };
    return host;
  }
  TemporaryFolder folder_;
};

// Two steps run while states are on the disk.
TEST_F(OffloadedStates, StepsKeepTheirBits) {
  for (const int stage : {0, 2, 3}) {
    const std::vector<ParamSpec> specs = small_specs(DType::kBFloat16);
    AttachOptions resident = options(stage, /*accumulate=*/2);
    resident.offload = {};
    const ScriptedRun expected = scripted_run(2, specs, resident, {.steps = 7});
    const auto move = [](ScriptedModel& model, int step) {
      RankEngine& engine = model.engine();
      const std::int64_t moved = step == 2 ? engine.offload_states({}) : step >= 4 ? engine.reload_states() : 0;
      EXPECT_EQ(moved > 0, step == 2 || step == 4) << "step " << step;
    };
    const ScriptedRun moved =
        scripted_run(2, specs, options(stage, /*accumulate=*/2), {.steps = 7, .before = move, .host = host()});
    EXPECT_EQ(moved, expected) << "stage " << stage;
    EXPECT_EQ(moved.reports[0].replans, 2);
    EXPECT_EQ(moved.reports[0].trace_mismatches, 0);
    EXPECT_EQ(moved.reports[0].memory.device.state(), expected.reports[0].memory.device.state());
  }
}

TEST_F(OffloadedStates, LeaveMemoryAsNamed) {
  on_ranks(2, [this](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options(3), host());
    model.train(0);
    RankEngine& engine = model.engine();
    const Ledger& ledger = engine.resources().ledger;
    const MemoryCount first = ledger.held(Tier::kDevice);
    engine.offload_states({.parameter = false, .gradient = false});
    EXPECT_EQ(ledger.held(Tier::kDevice)[MemoryTag::kMoment], 0);
    EXPECT_EQ(ledger.held(Tier::kDevice)[MemoryTag::kParameter], first[MemoryTag::kParameter]);
    EXPECT_GE(ledger.held(Tier::kDisk)[MemoryTag::kMoment], first[MemoryTag::kMoment]) << "in whole pages";
    EXPECT_EQ(ledger.held(Tier::kDisk)[MemoryTag::kParameter], 0);
    engine.offload_states({});
    EXPECT_EQ(ledger.held(Tier::kDevice).state() + ledger.held(Tier::kHost).state(), 0);
    EXPECT_GE(ledger.held(Tier::kDisk).state(), first.state());
    EXPECT_EQ(engine.reload_states(), first.state());
    EXPECT_EQ(ledger.held(Tier::kDevice).state(), first.state());
  });
}

// The message names the remedy, and the engine trains on.
TEST_F(OffloadedStates, FixedStatesAreRefused) {
  const auto refusal = [](const AttachOptions& fixed, std::string_view remedy) {
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), fixed, host());
      EXPECT_TRUE(says(message_of<ConfigError>([&] { model.engine().offload_states({}); }), remedy));
      EXPECT_FALSE(model.train(0).skipped);
    });
  };
  AttachOptions without_disk = options(3), fractions = options(3), kept = options(3);
  without_disk.offload.disk.clear();
  refusal(without_disk, "set zero.disk to a folder");
  fractions.offload.fractions.optimizer = {.disk = 1};
  refusal(fractions, "leave out zero.parameter, zero.gradient, zero.optimizer");
  kept.offload.automatic = false;
  refusal(kept, "leave out zero.placement");
}

TEST_F(OffloadedStates, StepInProgressIsRefused) {
  on_ranks(1, [this](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options(3), host());
    const std::vector<int> order = model.all_units();
    model.forward(order);
    model.backward(order, 0, 0);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { model.engine().offload_states({}); }),
                     "between a backward pass and its step()"));
    model.engine().step(0.01);
    EXPECT_GT(model.engine().offload_states({}), 0);
  });
}

// Every rank gets the error.
TEST_F(OffloadedStates, RanksNameTheSameStates) {
  const std::vector<std::string> ends = ends_of_ranks(2, [this](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options(3), host());
    model.engine().offload_states({.parameter = comm.rank() == 0});
  });
  for (const std::string& end : ends) EXPECT_TRUE(says(end, "ranks name different states"));
}

}  // namespace
}  // namespace zero
