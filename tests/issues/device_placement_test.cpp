// Three faults on a device with its own memory, found by running all engine tests on a device that finds races. A shard
// on several tiers was gathered while a kernel still updated its part on the device. A unit that is reduced twice in a
// step read its sum before the host had sent it to the device. With only budgets and a disk, arrays tried to return
// pages of the device's memory, which it keeps.
#include <array>
#include <cstddef>

#include <gtest/gtest.h>

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/device/recorded_device.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// On main memory, or on devices whose work runs late.
ScriptedRun trained(bool on_devices, const AttachOptions& options, ScriptedSteps steps = {}) {
  std::array<RecordedDevice, 2> devices{RecordedDevice({.late = 1}), RecordedDevice({.late = 2})};
  if (on_devices) steps.device = [&devices](int rank) { return &devices[static_cast<std::size_t>(rank)]; };
  return scripted_run(2, block_specs(DType::kFloat32), options, steps);
}

TEST(DevicePlacement, GathersSplitShardsAfterUpdates) {
  const TemporaryFolder folder;
  AttachOptions options{.stage = 3};
  options.offload.disk = {folder.path().string()};
  options.offload.fractions = {
      .parameter = {.host = 0.25, .disk = 0.25}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.25, .disk = 0.5}};
  EXPECT_EQ(trained(true, options), trained(false, options));
}

TEST(DevicePlacement, SecondBackwardAddsToTheFirst) {
  for (int stage = 0; stage <= 3; ++stage) {
    ScriptedSteps steps;
    steps.before = [](ScriptedModel& model, int step) {
      model.forward(model.all_units());
      model.backward(model.all_units(), step, 7);
    };
    const AttachOptions options{.stage = stage};
    EXPECT_EQ(trained(true, options, steps), trained(false, options, steps)) << stage;
  }
}

TEST(DevicePlacement, StatesStayWhereBudgetsPlacedThem) {
  const TemporaryFolder folder;
  AttachOptions options{.stage = 3, .device_memory = MemoryBudget::parse("1MiB")};
  options.offload.disk = {folder.path().string()};
  options.offload.host_memory = MemoryBudget::parse("32MiB");
  const ScriptedRun on_devices = trained(true, options), on_host = trained(false, options);
  EXPECT_EQ(on_devices, on_host);
  EXPECT_FALSE(on_devices.reports[0].movable);
  EXPECT_TRUE(on_host.reports[0].movable);
}

}  // namespace
}  // namespace zero
