#include "app/cli/bench/parts/device_copies.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/device/host_device.h"

#include "tests/support/device/recorded_device.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kCopiedBytes = 5 * DeviceCopies::kTileBytes;

void go_round(Device& device, int depth) {
  const TemporaryFolder folder;
  DiskTier disk({.paths = {folder.path().string()}, .bytes = kCopiedBytes});
  DeviceCopies copies(device, disk, kCopiedBytes, depth);
  copies.up();
  copies.to_disk();
  copies.from_disk();
  copies.down();
  EXPECT_TRUE(std::ranges::equal(copies.sent(), copies.received())) << device.name() << ", depth " << depth;
  for (const auto each : {&DeviceCopies::both, &DeviceCopies::bare_up, &DeviceCopies::bare_down,
                          &DeviceCopies::bare_both, &DeviceCopies::from_disk})
    (copies.*each)();
}

TEST(DeviceCopies, CopiesThroughDiskAndBack) {
  for (const int depth : {1, 3, 8}) go_round(HostDevice::instance(), depth);
}

TEST(DeviceCopies, OrdersCopiesOnALateDevice) {
  for (const int depth : {1, 3}) {
    RecordedDevice at_once, late({.late = 7}), behind({.far_behind = true});
    for (RecordedDevice* device : {&at_once, &late, &behind}) go_round(*device, depth);
  }
}

TEST(DeviceCopies, BareCopiesBringTheSameBytes) {
  RecordedDevice device;
  const TemporaryFolder folder;
  DiskTier disk({.paths = {folder.path().string()}, .bytes = kCopiedBytes});
  DeviceCopies copies(device, disk, kCopiedBytes, 2);
  copies.bare_up();
  copies.to_disk();
  copies.from_disk();
  copies.bare_down();
  EXPECT_TRUE(std::ranges::equal(copies.sent(), copies.received()));
}

}  // namespace
}  // namespace zero::cli
