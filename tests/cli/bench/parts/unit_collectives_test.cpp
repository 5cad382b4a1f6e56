#include "app/cli/bench/parts/unit_collectives.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "zero/device/host_device.h"

#include "tests/engine/thread_ranks.h"
#include "tests/support/device/recorded_device.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kUnitBytes = 1 << 16;

std::vector<float> brought_down(Device& device, std::span<const std::byte> bytes) {
  const Allocation pinned = device.allocate_pinned(bytes.size());
  device.copy(Lane::kCompute, pinned.bytes(), bytes);
  device.join(device.mark(Lane::kCompute));
  const auto* const first = reinterpret_cast<const float*>(pinned.data());
  return {first, first + bytes.size() / sizeof(float)};
}

void set_to(Device& device, std::span<std::byte> bytes, float value) {
  const Allocation pinned = device.allocate_pinned(bytes.size());
  std::fill_n(reinterpret_cast<float*>(pinned.data()), bytes.size() / sizeof(float), value);
  device.copy(Lane::kCompute, bytes, pinned.bytes());
  device.join(device.mark(Lane::kCompute));
}

void gathers_and_sums(Communicator& comm, Device& device) {
  UnitCollectives unit(comm, device, kUnitBytes, /*linked=*/false);
  set_to(device, unit.shard(), static_cast<float>(1 + comm.rank()));
  unit.gather();
  const std::vector<float> whole = brought_down(device, unit.whole());
  EXPECT_EQ(whole.front(), 1);
  EXPECT_EQ(whole.back(), 2);
  unit.sum();
  const std::vector<float> shard = brought_down(device, unit.shard());
  EXPECT_EQ(std::ranges::count(shard, static_cast<float>(2 * (1 + comm.rank()))), std::ssize(shard));
  unit.gather_copies();
  unit.sum_copies();
  EXPECT_EQ(unit.way(), device.host_readable() ? "in place" : "through the host");
}

TEST(UnitCollectives, MainMemoryPassesTheUnitDirectly) {
  on_ranks(2, [](Communicator& comm) { gathers_and_sums(comm, HostDevice::instance()); });
}

TEST(UnitCollectives, DevicePassesThroughHostWithoutRaces) {
  for (const std::uint64_t seed : {1, 2})
    on_ranks(2, [seed](Communicator& comm) {
      RecordedDevice device({.late = seed});
      gathers_and_sums(comm, device);
    });
}

}  // namespace
}  // namespace zero::cli
