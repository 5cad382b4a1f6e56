// State mover: states are placed again after the model's computation has been measured. The bits do not change.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_run.h"
#include "tests/support/fp32_states.h"
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

}  // namespace
}  // namespace zero
