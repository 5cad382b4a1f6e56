// The timeline of an engine on a device: passes, waits, updates and transfers, timed by the device's own clock.
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/process/timeline.h"
#include "zero/engine/rank_engine.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/scripted_run.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr int kSteps = 3;

struct Recorded {
  std::vector<TimelineSpan> spans;
  std::vector<std::uint32_t> weights;
  LinkTraffic link;
  double forward = 0, backward = 0;  // as in the reports
  EngineReport last;

  std::vector<TimelineSpan> of(Activity activity) const {
    std::vector<TimelineSpan> some;
    std::ranges::copy_if(spans, std::back_inserter(some),
                         [activity](const TimelineSpan& span) { return span.activity == activity; });
    return some;
  }
  double seconds(Activity activity) const {
    double seconds = 0;
    for (const TimelineSpan& span : of(activity)) seconds += span.end - span.begin;
    return seconds;
  }
};

// Steps of rank 0. Each rank has its own device.
Recorded recorded(int world, AttachOptions options, bool with_timeline = true) {
  Recorded result;
  on_ranks(world, [&](Communicator& comm) {
    RecordedDevice device;
    Timeline timeline;
    AttachOptions mine = options;
    if (with_timeline) mine.timeline = &timeline;
    timeline.start();
    ScriptedModel model(comm, small_specs(), mine, {.device = &device});
    Recorded sums;
    for (int step = 0; step < kSteps; ++step) {
      model.train(step, 1);
      sums.last = model.engine().report();
      sums.link = sums.link + sums.last.link_per_step;
      sums.forward += sums.last.device_passes->forward_seconds;
      sums.backward += sums.last.device_passes->backward_seconds;
    }
    timeline.stop();
    sums.spans = timeline.spans();
    sums.weights = model.weight_bits();
    if (comm.rank() == 0) result = sums;
  });
  return result;
}

bool inside(const TimelineSpan& inner, const TimelineSpan& outer) {
  constexpr double kRounding = 1e-9;
  return outer.begin <= inner.begin + kRounding && inner.end <= outer.end + kRounding;
}

// The timeline has each pass and step exactly once.
TEST(TimelineOfADeviceOnAnyDevice, PassesAndStepsFollowInOrder) {
  for (const int stage : {0, 1, 2, 3}) {
    const Recorded run = recorded(2, {.stage = stage});
    const auto forward = run.of(Activity::kForward), backward = run.of(Activity::kBackward),
               step = run.of(Activity::kStep);
    ASSERT_EQ(forward.size(), kSteps) << stage;
    ASSERT_EQ(backward.size(), kSteps) << stage;
    ASSERT_EQ(step.size(), kSteps) << stage;
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(forward[i].end, backward[i].begin, 1e-9) << stage;
      EXPECT_LE(backward[i].end, step[i].begin + 1e-9) << stage;
      if (i > 0) {
        EXPECT_LE(step[i - 1].end, forward[i].begin + 1e-9) << stage;
      }
    }
    EXPECT_NEAR(run.seconds(Activity::kForward), run.forward, 1e-9) << "as in the reports";
  }
}

TEST(TimelineOfADeviceOnAnyDevice, HasItsWaitsWithinPasses) {
  const Recorded run = recorded(2, {.stage = 3});
  std::vector<TimelineSpan> passes = run.of(Activity::kForward);
  std::ranges::copy(run.of(Activity::kBackward), std::back_inserter(passes));
  const auto waits = run.of(Activity::kWaitGather);
  ASSERT_FALSE(waits.empty());
  for (const TimelineSpan& wait : waits) {
    EXPECT_TRUE(std::ranges::any_of(passes, [&](const TimelineSpan& pass) { return inside(wait, pass); }));
    EXPECT_GE(wait.unit, 0);
  }
  EXPECT_LT(run.last.profile.forward_seconds, run.last.device_passes->forward_seconds) << "waits are not computation";
}

// Each unit with states on the device has an update span.
TEST(TimelineOfADeviceOnAnyDevice, ShowsUpdatesOfUnitsThere) {
  const Recorded run = recorded(2, {.stage = 2});
  const auto updates = run.of(Activity::kUpdate);
  EXPECT_EQ(updates.size(), kSteps * 5U) << "four units and the rest";
  for (const TimelineSpan& update : updates) EXPECT_GT(update.end, update.begin);
}

TEST(TimelineOfADeviceOnAnyDevice, TransfersSumToLinkTime) {
  AttachOptions options{.stage = 3};
  options.offload.fractions.optimizer.host = 1;
  const Recorded run = recorded(2, options);
  ASSERT_GT(run.link.up_bytes, 0);
  ASSERT_GT(run.link.up_busy_seconds, 0);
  EXPECT_NEAR(run.seconds(Activity::kLinkUp), run.link.up_busy_seconds, 1e-9);
  EXPECT_NEAR(run.seconds(Activity::kLinkDown), run.link.down_busy_seconds(), 1e-9);
  EXPECT_LE(run.link.waited_seconds, run.link.busy_seconds + 1e-9);
}

// A device's link moves as many bytes in a step as planned, and as many as a host's link.
TEST(LinkOfADevice, MovesAsManyBytesAsHost) {
  const std::vector<ParamSpec> specs{{.name = "wte", .shape = {40, 30}, .own_unit = true},
                                     {.name = "h.0.w", .shape = {50, 60}},
                                     {.name = "h.1.w", .shape = {50, 60}}};
  for (const int stage : {0, 1, 2, 3}) {
    for (const double parameter : {0.0, 0.5, 1.0}) {
      for (const double optimizer : {0.5, 1.0}) {
        if (parameter > 0 && stage < 3) continue;
        AttachOptions options{.stage = stage};
        options.offload.fractions.parameter.host = parameter;
        options.offload.fractions.optimizer.host = optimizer;
        const auto traffic = [&](bool on_device) {
          LinkTraffic last;
          on_ranks(2, [&](Communicator& comm) {
            RecordedDevice device;
            AttachOptions mine = options;
            EngineHost host;
            if (on_device) host.device = &device;
            if (!on_device) mine.offload.link_bytes_per_second = 1e12;
            ScriptedModel model(comm, specs, mine, host);
            for (int step = 0; step < kSteps; ++step) model.train(step, 1);
            if (comm.rank() == 0) last = model.engine().report().link_per_step;
            model.engine().finish();
          });
          return last;
        };
        const LinkTraffic device = traffic(true), host = traffic(false);
        EXPECT_EQ(device.up_bytes, host.up_bytes) << stage << " " << parameter << " " << optimizer;
        EXPECT_EQ(device.down_bytes, host.down_bytes) << stage << " " << parameter << " " << optimizer;
        EXPECT_GT(device.busy_seconds, 0) << stage << " " << parameter << " " << optimizer;
      }
    }
  }
}

TEST(TimelineOfADeviceOnAnyDevice, ChangesNoBit) {
  AttachOptions options{.stage = 3};
  options.offload.fractions.optimizer.host = 0.5;
  const Recorded watched = recorded(2, options);
  ASSERT_FALSE(watched.weights.empty());
  EXPECT_EQ(recorded(2, options, /*with_timeline=*/false).weights, watched.weights);
}

// If ranks share a model, the prediction includes their exchanges.
TEST(TimelineOfADevice, SharedModelsPredictExchanges) {
  const Recorded alone = recorded(1, {.stage = 3}), both = recorded(2, {.stage = 3});
  const auto exchanged = [](const EngineReport& report) {
    return report.predicted.total() - report.profile.forward_seconds - report.profile.backward_seconds;
  };
  EXPECT_NEAR(exchanged(alone.last), 0, 1e-9);
  EXPECT_NEAR(exchanged(both.last), both.last.device_passes->waited_seconds, 1e-9);
  EXPECT_GT(exchanged(both.last), 0);
}

}  // namespace
}  // namespace zero
