#include "app/cli/bench/parts/moment_step.h"

#include <gtest/gtest.h>

#include "tests/support/device/recorded_device.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

TEST(MomentStep, RunsWithMomentsOnAnyTier) {
  const TemporaryFolder folder;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const MomentStepOptions options{.mib = 2, .folders = {folder.path().string()}, .depth = 2};
    RecordedDevice device({.late = 3});
    MomentStep(options, tier).run();
    MomentStep(options, tier, &HostDevice::instance()).run();
    MomentStep on_device(options, tier, &device);
    on_device.run();  // throws if there is a race
    on_device.run();
  }
}

}  // namespace
}  // namespace zero::cli
