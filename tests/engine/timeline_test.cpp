// An engine's timeline, and that it agrees with the engine's counters.
#include "zero/base/process/timeline.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/process/chrome_trace.h"
#include "zero/engine/rank_engine.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr int kSteps = 3;

std::vector<TimelineSpan> spans_of(const Timeline& timeline, Activity activity) {
  std::vector<TimelineSpan> spans;
  std::ranges::copy_if(timeline.spans(), std::back_inserter(spans),
                       [&](const TimelineSpan& span) { return span.activity == activity; });
  return spans;
}

double seconds_of(const std::vector<TimelineSpan>& spans) {
  double seconds = 0;
  for (const TimelineSpan& span : spans) seconds += span.end - span.begin;
  return seconds;
}

std::int64_t bytes_of(const std::vector<TimelineSpan>& spans) {
  std::int64_t bytes = 0;
  for (const TimelineSpan& span : spans) bytes += span.bytes;
  return bytes;
}

bool inside(const TimelineSpan& inner, const TimelineSpan& outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

bool together(const TimelineSpan& a, const TimelineSpan& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Steps whose phases are marked by the training loop. The recording begins before the engine is made.
class TimelineOfEngine : public testing::Test {
 protected:
  struct Counted {
    LinkTraffic link;
    DiskTraffic disk;
    WorkSeconds work;
    std::vector<std::uint32_t> weights;
    std::vector<std::string> unit_names;
    std::vector<std::int64_t> gathered_bytes;  // by unit, with padding
  };

  static void train(ScriptedModel& model, int step, Timeline* timeline) {
    const std::vector<int> order = model.all_units();
    {
      const TimedSpan span(timeline, Activity::kForward);
      model.forward(order);
    }
    {
      const TimedSpan span(timeline, Activity::kBackward);
      model.backward(order, step, 0);
    }
    const TimedSpan span(timeline, Activity::kStep);
    model.engine().step(0.01);
  }

  // Returns the totals that rank 0 counted. Its spans are in timeline_.
  Counted run(AttachOptions options, bool recorded = true, int world = 2) {
    Counted counted;
    on_ranks(world, [&](Communicator& comm) {
      Timeline others;
      Timeline& timeline = comm.rank() == 0 ? timeline_ : others;
      AttachOptions mine = options;
      mine.timeline = recorded ? &timeline : nullptr;
      if (recorded) timeline.start();
      ScriptedModel model(comm, large_, mine);
      Counted sums;
      for (int step = 0; step < kSteps; ++step) {
        train(model, step, mine.timeline);
        const EngineReport report = model.engine().report();
        sums.link.busy_seconds += report.link_per_step.busy_seconds;
        sums.link.waited_seconds += report.link_per_step.waited_seconds;
        sums.link.up_bytes += report.link_per_step.up_bytes;
        sums.link.down_bytes += report.link_per_step.down_bytes;
        sums.disk.read_bytes += report.requests_per_step.disk.read_bytes;
        sums.disk.written_bytes += report.requests_per_step.disk.written_bytes;
        sums.disk.waited_seconds += report.requests_per_step.disk.waited_seconds;
      }
      timeline.stop();
      sums.work = model.engine().take_work_seconds();
      sums.weights = model.weight_bits();
      for (const Unit& unit : model.units()) {
        sums.unit_names.push_back(unit.name);
        sums.gathered_bytes.push_back(gathered_bytes(unit, world));
      }
      if (comm.rank() == 0) counted = sums;
    });
    return counted;
  }

  std::vector<TimelineSpan> phases() const {
    std::vector<TimelineSpan> all;
    for (const Activity activity : {Activity::kForward, Activity::kBackward, Activity::kStep})
      std::ranges::copy(spans_of(timeline_, activity), std::back_inserter(all));
    return all;
  }

  const std::vector<ParamSpec> large_{{.name = "wte", .shape = {200, 150}, .own_unit = true},
                                      {.name = "h.0.w", .shape = {250, 300}},
                                      {.name = "h.1.w", .shape = {250, 300}},
                                      {.name = "h.2.w", .shape = {250, 300}}};
  TemporaryFolder folder_;
  Timeline timeline_;
};

AttachOptions on_host_behind_a_link(double bytes_per_second) {
  AttachOptions options{.stage = 3};
  options.offload.fractions.optimizer.host = 1;
  options.offload.link_bytes_per_second = bytes_per_second;
  return options;
}

TEST_F(TimelineOfEngine, LinkSpansSumToBusyTime) {
  const Counted counted = run(on_host_behind_a_link(1e9));
  const auto up = spans_of(timeline_, Activity::kLinkUp);
  const auto down = spans_of(timeline_, Activity::kLinkDown);
  ASSERT_GT(counted.link.busy_seconds, 0);
  EXPECT_NEAR(seconds_of(up) + seconds_of(down), counted.link.busy_seconds, 1e-6);
  EXPECT_EQ(bytes_of(up), counted.link.up_bytes);
  EXPECT_EQ(bytes_of(down), counted.link.down_bytes);
  for (const auto& way : {up, down}) {
    for (std::size_t i = 1; i < way.size(); ++i) EXPECT_GE(way[i].begin, way[i - 1].end);
    for (const TimelineSpan& span : way) EXPECT_GE(span.unit, 0) << "the tile knows its unit";
  }
}

TEST_F(TimelineOfEngine, TransfersOverlapComputation) {
  run(on_host_behind_a_link(1e9));
  const auto computing = phases();
  ASSERT_EQ(computing.size(), 3u * kSteps);
  int beside = 0;
  for (const TimelineSpan& span : spans_of(timeline_, Activity::kLinkUp))
    beside += std::ranges::any_of(computing, [&](const TimelineSpan& phase) { return together(span, phase); });
  EXPECT_GT(beside, 0);
}

TEST_F(TimelineOfEngine, UnhiddenLinkTimeIsAWait) {
  const Counted counted = run(on_host_behind_a_link(5e6));
  const auto waits = spans_of(timeline_, Activity::kWaitLink);
  ASSERT_GT(counted.link.waited_seconds, 0) << "about 1 MB per step at 5 MB/s";
  EXPECT_GE(seconds_of(waits) + 1e-3, counted.link.waited_seconds);
}

TEST_F(TimelineOfEngine, DiskSpansHoldTheBytes) {
  AttachOptions options{.stage = 3};
  options.offload.fractions.optimizer.disk = 1;
  options.offload.disk = {folder_.path().string()};
  const Counted counted = run(options);
  const auto reads = spans_of(timeline_, Activity::kDiskRead);
  ASSERT_GT(counted.disk.read_bytes, 0);
  EXPECT_EQ(bytes_of(reads), counted.disk.read_bytes);
  EXPECT_EQ(bytes_of(spans_of(timeline_, Activity::kDiskWrite)), counted.disk.written_bytes);
  EXPECT_GE(seconds_of(spans_of(timeline_, Activity::kWaitDisk)) + 1e-6, counted.disk.waited_seconds);
  for (const TimelineSpan& span : reads) EXPECT_GE(span.unit, 0);
}

TEST_F(TimelineOfEngine, GatherWaitEndsWithTheGather) {
  const Counted counted = run({.stage = 3});
  const auto gathers = spans_of(timeline_, Activity::kGather);
  const auto waits = spans_of(timeline_, Activity::kWaitGather);
  ASSERT_GE(gathers.size(), 4u * kSteps) << "each unit is gathered in each step";
  for (const TimelineSpan& wait : waits) {
    EXPECT_TRUE(std::ranges::any_of(gathers, [&](const TimelineSpan& gather) {
      return gather.unit == wait.unit && wait.begin <= gather.end && gather.end <= wait.end;
    }));
  }
  EXPECT_GE(seconds_of(gathers) + seconds_of(waits) + 1e-6, counted.work.gather) << "spans cover all measured seconds";
  for (const TimelineSpan& gather : gathers)
    EXPECT_EQ(gather.bytes, counted.gathered_bytes[static_cast<std::size_t>(gather.unit)]);
}

TEST_F(TimelineOfEngine, WaitsLieWithinAPhase) {
  AttachOptions options = on_host_behind_a_link(1e8);
  run(options);
  const auto outer = phases();
  int waits = 0;
  for (const Activity activity : {Activity::kWaitGather, Activity::kWaitReduce, Activity::kWaitLink}) {
    for (const TimelineSpan& span : spans_of(timeline_, activity)) {
      if (span.begin < outer.front().begin) continue;  // a span of load()
      ++waits;
      EXPECT_TRUE(std::ranges::any_of(outer, [&](const TimelineSpan& phase) { return inside(span, phase); }))
          << name_of(activity);
    }
  }
  EXPECT_GT(waits, 0);
}

// In a step, every unit is reduced once and updated once.
TEST_F(TimelineOfEngine, ReducesAndUpdatesUnitsOnce) {
  for (const int stage : {0, 1, 2, 3}) {
    const Counted counted = run({.stage = stage});
    std::vector<int> reduces(counted.unit_names.size()), updates(counted.unit_names.size());
    for (const TimelineSpan& span : spans_of(timeline_, Activity::kReduce))
      ++reduces.at(static_cast<std::size_t>(span.unit));
    for (const TimelineSpan& span : spans_of(timeline_, Activity::kUpdate))
      ++updates.at(static_cast<std::size_t>(span.unit));
    EXPECT_EQ(reduces, std::vector<int>(counted.unit_names.size(), kSteps)) << "stage " << stage;
    EXPECT_EQ(updates, reduces) << "stage " << stage;
    EXPECT_EQ(spans_of(timeline_, Activity::kGatherGradient).size(), stage == 0 ? 4u * kSteps : 0u);
  }
}
using TimelineOfEngineOnAnyDevice = TimelineOfEngine;

TEST_F(TimelineOfEngineOnAnyDevice, IsWatchedWithoutChangingABit) {
  const AttachOptions options = on_host_behind_a_link(1e9);
  const auto watched = run(options).weights;
  ASSERT_FALSE(watched.empty());
  const std::size_t recorded = timeline_.spans().size();
  EXPECT_EQ(run(options, /*recorded=*/false).weights, watched);
  EXPECT_EQ(timeline_.spans().size(), recorded) << "an engine without a timeline writes none";
}

TEST_F(TimelineOfEngine, NamesItsUnitsInTheTrace) {
  const Counted counted = run(on_host_behind_a_link(1e9));
  EXPECT_EQ(timeline_.unit_names(), counted.unit_names);
  const std::array ranks{RankTimeline{.spans = timeline_.spans(), .origin = timeline_.origin()}};
  const auto trace = nlohmann::json::parse(to_chrome_trace(ranks, timeline_.unit_names()));
  std::vector<std::string> found;
  for (const auto& event : trace.at("traceEvents")) found.push_back(event.at("name"));
  for (const char* name : {"gather h.0", "reduce h.1", "update wte", "up h.2", "down h.2", "forward"})
    EXPECT_NE(std::ranges::find(found, name), found.end()) << name;
}

}  // namespace
}  // namespace zero
