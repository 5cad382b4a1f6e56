#include "app/report/plan/computation.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::vector<Unit> units_of(const std::vector<std::int64_t>& numels) {
  std::vector<Unit> units;
  for (const std::int64_t numel : numels) {
    Unit unit;
    unit.index = static_cast<int>(units.size());
    unit.numel = numel;
    units.push_back(unit);
  }
  return units;
}

Event access(int unit) {
  return {EventKind::kAccess, unit, {}};
}
Event gradient(int unit) {
  return {EventKind::kGradient, unit, {}};
}
Event of(EventKind kind) {
  return {kind, -1, {}};
}

// The backward pass takes the other two thirds.
TEST(EstimatedComputation, ForwardTakesOneThird) {
  const Computation computation = estimated_computation({.flops = 6e9, .flops_per_second = 1e9});
  EXPECT_EQ(computation.from, ComputationFrom::kEstimate);
  EXPECT_DOUBLE_EQ(computation.step.forward_seconds, 2);
  EXPECT_DOUBLE_EQ(computation.step.backward_seconds, 4);
  EXPECT_DOUBLE_EQ(computation.flops, 6e9);
}

TEST(EstimatedComputation, CheckpointsComputeForwardOnceMore) {
  const Computation computation =
      estimated_computation({.flops = 6e9, .computes_again = true, .flops_per_second = 1e9});
  EXPECT_DOUBLE_EQ(computation.step.forward_seconds, 2);
  EXPECT_DOUBLE_EQ(computation.step.backward_seconds, 6);
  EXPECT_DOUBLE_EQ(computation.flops, 8e9);
}

TEST(EstimateUses, UnitsFollowTraceByElementShare) {
  const Trace trace{{access(0), access(1), access(2), of(EventKind::kBackward), access(2), gradient(2), access(1),
                     gradient(1), access(0), gradient(0), of(EventKind::kEndBackward), of(EventKind::kStep)}};
  StepProfile profile;
  estimate_uses(trace, units_of({100, 200, 100}), profile);
  EXPECT_EQ(profile.used_at, (std::vector<double>{0, 0.25, 0.75}));
  EXPECT_EQ(profile.gradient_at, (std::vector<double>{1, 0.75, 0.25}));
}

// Tied embeddings are accessed twice. Each access counts as half of their computation.
TEST(EstimateUses, TwoAccessesSplitUnitsComputation) {
  const Trace trace{{access(0), access(1), access(0), of(EventKind::kBackward), access(0), access(1), gradient(1),
                     access(0), gradient(0), of(EventKind::kEndBackward), of(EventKind::kStep)}};
  StepProfile profile;
  estimate_uses(trace, units_of({200, 200}), profile);
  EXPECT_EQ(profile.used_at, (std::vector<double>{0, 0.25}));
  EXPECT_EQ(profile.gradient_at, (std::vector<double>{1, 0.75}));
}

TEST(EstimateUses, MicroBatchesAreAlike) {
  const std::vector<Event> micro{access(0), access(1),   of(EventKind::kBackward),   access(1), gradient(1),
                                 access(0), gradient(0), of(EventKind::kEndBackward)};
  Trace trace{micro};
  trace.events.insert(trace.events.end(), micro.begin(), micro.end());
  trace.events.push_back(of(EventKind::kStep));
  StepProfile profile;
  estimate_uses(trace, units_of({100, 300}), profile);
  EXPECT_EQ(profile.used_at, (std::vector<double>{0, 0.25}));
  EXPECT_EQ(profile.gradient_at, (std::vector<double>{1, 0.75}));
}

TEST(EstimateUses, WithoutATraceNothingIsKnown) {
  StepProfile profile;
  estimate_uses({}, units_of({100, 300}), profile);
  EXPECT_TRUE(profile.used_at.empty());
  EXPECT_TRUE(profile.gradient_at.empty());
}

// The seconds scale with the number of samples on a rank.
TEST(ComputationOfARun, OtherSampleCountsTakeOtherSeconds) {
  const TemporaryFolder run;
  const std::string profile = R"("profile": {"forward_seconds": 1, "backward_seconds": 2, "update_seconds": 3})";
  run.write("report.json", R"({"world": 2, "tokens_per_step": 256, )" + profile + "}");
  const auto of = [&](double tokens) { return computation_of_run(run.path().string(), 2, tokens); };
  EXPECT_EQ(of(128).scale, 1);
  EXPECT_EQ(of(128).world, 2);
  EXPECT_EQ(of(192).scale, 1.5);
  EXPECT_EQ(of(192).step.forward_seconds, 1.5);
  EXPECT_EQ(of(192).step.backward_seconds, 3);
  EXPECT_EQ(of(192).update_seconds, 3) << "for the same states";
  run.write("report.json", "{" + profile + "}");
  EXPECT_EQ(of(192).scale, 1) << "an older report does not say";
}

TEST(ComputationOfARun, GpuUsesProbedRates) {
  const TemporaryFolder run;
  const std::string profile = R"("profile": {"forward_seconds": 1, "backward_seconds": 2, "update_seconds": 3)";
  const auto read = [&](const std::string& report) {
    run.write("report.json", report);
    return computation_of_run(run.path().string(), 2, 64);
  };
  const Computation cpu = read("{" + profile + "}}");
  EXPECT_FALSE(cpu.on_gpu) << "an older report does not say";
  EXPECT_TRUE(cpu.states_on_device);
  EXPECT_EQ(cpu.rates.update_numel, 0);
  const Computation gpu = read(
      R"({"device": "cuda:1", "rates": {"link_up": 5, "disk_share": 0.5, "host_updates": 7, "device_updates": 9}, )" +
      profile + R"(, "states_on_device": false}})");
  EXPECT_TRUE(gpu.on_gpu);
  EXPECT_FALSE(gpu.states_on_device);
  EXPECT_EQ(gpu.rates.link_up, 5);
  EXPECT_EQ(gpu.rates.link_down, 0);
  EXPECT_EQ(gpu.rates.requests.disk.share, 0.5);
  EXPECT_EQ(gpu.rates.update_numel, 7);
  EXPECT_EQ(gpu.rates.device_update_numel, 9);
}

TEST(ComputationOfARun, RefusesReportWithoutProfile) {
  const TemporaryFolder run;
  for (const char* report : {"{}", "[]", "no json", R"({"profile": 3})", R"({"profile": {"forward_seconds": "1"}})"}) {
    run.write("report.json", report);
    EXPECT_THROW(computation_of_run(run.path().string(), 2, 64), ConfigError) << report;
  }
}

}  // namespace
}  // namespace zero
