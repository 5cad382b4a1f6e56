#include "app/train/run/parts/run_meter.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr int kSteps = 6;

EngineReport report_of(bool off_device) {
  EngineReport report;
  report.memory.device[MemoryTag::kParameter] = 1000;
  report.sent_bytes_per_step = 77;
  report.state_bytes[Tier::kDevice] = 1000;
  if (off_device) report.state_bytes[Tier::kDisk] = 3000;
  report.predicted.busy[0][0] = 0.5;
  report.requests_per_step.disk = {.read_bytes = 20, .waited_seconds = 0.25};
  return report;
}

// The report of one rank after kSteps steps of half a second. `replans_later`: states move after the prediction.
RunReport measured(const EngineReport& engine, std::string& said, bool replans_later = false) {
  RunMeter meter(nullptr, 1);
  EngineReport now = engine;
  meter.begin(now, kSteps);
  for (int step = 1; step <= kSteps; ++step) {
    StepMetrics metrics{.step = step, .seconds = 0.5, .forward = 0.2};
    meter.complete(metrics, now);
    EXPECT_EQ(metrics.memory, now.memory);
    EXPECT_EQ(metrics.sent_bytes, 77);
    meter.count(step, [&](const std::string& line) { said += line + "\n"; });
    EXPECT_EQ(meter.num_steps(), step);
    if (step == kSteps - 1 && replans_later) ++now.replans;
  }
  RunReport report;
  run_ranks(1, [&](World& world) { meter.fill(report, world.communicator()); });
  return report;
}

// The report has the engine's last state.
TEST(RunMeterTest, ReportHasMediansAndLastState) {
  std::string said;
  const RunReport report = measured(report_of(false), said);
  EXPECT_EQ(said, "");
  ASSERT_EQ(report.ranks.size(), 1U);
  EXPECT_EQ(report.ranks[0].memory.device[MemoryTag::kParameter], 1000);
  EXPECT_EQ(report.ranks[0].sent_bytes_per_step, 77);
  EXPECT_GT(report.ranks[0].peak_rss, 0);
  EXPECT_GT(report.ranks[0].steady_rss, 0);
  EXPECT_GT(report.ranks[0].startup_s, 0);
  EXPECT_EQ(report.engine.sent_bytes_per_step, 77);
  EXPECT_EQ(report.profile.forward, 0.2);
  EXPECT_EQ(report.profile.total, 0.5);
  EXPECT_EQ(report.profile.exposed, 0.25);
}

TEST(RunMeterTest, OffDeviceStatesShowTransfers) {
  std::string said;
  EXPECT_EQ(measured(report_of(false), said).ranks[0].transfers.requests.disk.read_bytes, 0);
  EXPECT_EQ(measured(report_of(true), said).ranks[0].transfers.requests.disk.read_bytes, 20);
}

TEST(RunMeterTest, OffDeviceStatesShowExpectationOnce) {
  std::string said;
  measured(report_of(true), said);
  EXPECT_TRUE(says(said, "step 3: with the model's computation 500 ms a step are expected")) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST(RunMeterTest, PredictionNeedsUnmovedStates) {
  std::string said;
  ASSERT_TRUE(measured(report_of(true), said).predicted.has_value());
  EXPECT_EQ(measured(report_of(true), said).predicted->total(), 0.5);
  EXPECT_FALSE(measured(report_of(true), said, /*replans_later=*/true).predicted.has_value());
}

TEST(RunMeterTest, SumsIncludeEarlierProcesses) {
  RunMeter meter(nullptr, 1);
  meter.start_at(40, {.total = 5000, .between_copies = 300});
  const EngineReport engine = report_of(false);
  meter.begin(engine, kSteps);
  for (int step = 41; step <= 43; ++step) {
    StepMetrics metrics{.step = step};
    meter.complete(metrics, engine);
  }
  EXPECT_EQ(meter.sent().total, 5000 + 3 * 77);
  EXPECT_EQ(meter.sent().between_copies, 300);
  meter.take_back(41, {.total = 1, .between_copies = 1});
  EXPECT_EQ(meter.sent().total, 5000 + 77) << "the step is one of this process";
  meter.take_back(30, {.total = 4000, .between_copies = 200});
  EXPECT_EQ(meter.sent().total, 4000) << "the run is at a step of an earlier process";
  OuterReport outer{.local_steps = 4};
  outer.so_far = {.total = 50, .between_copies = 20};
  EXPECT_EQ(meter.merged(outer).total, 50);
  EXPECT_EQ(meter.sent().total, 4050) << "a process without a step may merge";
  EXPECT_EQ(meter.sent().between_copies, 220);
}

TEST(RunMeterTest, EveryRankHasAllFigures) {
  run_ranks(3, [](World& world) {
    RunMeter meter(nullptr, 1);
    EngineReport engine = report_of(false);
    engine.sent_bytes_per_step = world.rank();
    meter.begin(engine, 1);
    RunReport report;
    meter.fill(report, world.communicator());
    ASSERT_EQ(report.ranks.size(), 3U);
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(report.ranks[static_cast<std::size_t>(rank)].sent_bytes_per_step, rank);
  });
}

}  // namespace
}  // namespace zero
