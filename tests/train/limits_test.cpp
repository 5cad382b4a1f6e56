#include "app/train/limits.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

EngineReport with_moments_on_disk() {
  EngineReport report;
  report.state_bytes = {.device = 2 << 20, .disk = 6 << 20};
  report.predicted
      .busy[static_cast<std::size_t>(StepPhase::kUpdate)][static_cast<std::size_t>(requests_of(Tier::kDisk))] = 0.25;
  return report;
}

TEST(Limits, DeviceOnlyStatesHaveNone) {
  EngineReport report;
  report.state_bytes = {.device = 1000};
  EXPECT_FALSE(off_device(report));
  report.state_bytes = {.device = 1000, .host = 1};
  EXPECT_TRUE(off_device(report));
  EXPECT_TRUE(off_device(with_moments_on_disk()));
}

// The first line says where states are and what bounds their transfers.
TEST(Limits, FirstLineNamesTiersAndBound) {
  EngineReport report = with_moments_on_disk();
  EXPECT_EQ(first_limits(report),
            "states of a rank: 2.00 MiB on the device, 0 B on the host, 6.00 MiB on disk; at probed rates their "
            "transfers and updates take 250 ms a step, bound by disk");
  report.predicted = {};
  EXPECT_EQ(first_limits(report), "states of a rank: 2.00 MiB on the device, 0 B on the host, 6.00 MiB on disk")
      << "no rate is known";
}

// The second line says whether states moved.
TEST(Limits, SecondLineCountsComputation) {
  EngineReport report = with_moments_on_disk();
  report.predicted.busy[static_cast<std::size_t>(StepPhase::kForward)][static_cast<std::size_t>(Resource::kCompute)] =
      0.5;
  EXPECT_EQ(learned_limits(report, 3),
            "step 3: with the model's computation 750 ms a step are expected, bound by compute; states of a rank: 2.00 "
            "MiB on the device, 0 B on the host, 6.00 MiB on disk, as before");
  report.replans = 1;
  report.moved_bytes = 1 << 20;
  EXPECT_TRUE(learned_limits(report, 3).ends_with(" on disk (1.00 MiB moved)")) << learned_limits(report, 3);
}

TEST(Limits, UnmovableStatesHaveReason) {
  const EngineReport report = with_moments_on_disk();
  const auto ends_with = [&](const OffloadOptions& offload, std::string_view reason) {
    const std::string why = why_states_stay(report, offload);
    return why.starts_with("  they stay there, however much memory is free: ") && why.ends_with(reason);
  };
  EXPECT_TRUE(ends_with({.fractions = {.optimizer = {.disk = 1}}, .disk = {"/disk"}},
                        "fractions say where (zero.parameter, gradient, optimizer)"));
  EXPECT_TRUE(ends_with({}, "no disk is set (zero.disk)"));
  EXPECT_TRUE(ends_with(
      {.disk = {"/disk"}},
      "has no room for all states that may leave the device, or zero.host_memory has no room for their tiles"));
}

// Movable states get no reason, even if the monitor is off.
TEST(Limits, MovableStatesGetNoReason) {
  EngineReport report = with_moments_on_disk();
  EXPECT_EQ(why_states_stay(report, {.monitor = {.on = false}}), "");
  report.movable = true;
  EXPECT_EQ(why_states_stay(report, {.disk = {"/disk"}}), "");
}

}  // namespace
}  // namespace zero
