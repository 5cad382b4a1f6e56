// The probe of a device: rates of copies and updates, for planning a step.
#include "zero/engine/place/device_probe.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"

#include "tests/engine/scripted_run.h"
#include "tests/support/device/recorded_device.h"
#include "tests/support/forwarded_device.h"

namespace zero {
namespace {

constexpr std::int64_t kMuch = std::numeric_limits<std::int64_t>::max();
constexpr double kSlow = 4e9;  // bytes per second

// SlowUp: main memory in the role of a device's memory. Copies from pinned memory reach at most kSlow. It counts
// allocations.
class SlowUp final : public ForwardedDevice {
 public:
  SlowUp() : ForwardedDevice(HostDevice::instance()) {}
  bool host_readable() const override { return false; }
  Allocation allocate_pinned(std::size_t bytes) override {
    Allocation memory = ForwardedDevice::allocate_pinned(bytes);
    pinned = memory.bytes();
    return memory;
  }
  Allocation allocate(std::size_t bytes) override {
    if (bytes > room) throw ConfigError("memory", std::to_string(bytes), "there is no room", "use less");
    most_allocated = std::max(most_allocated, bytes);
    return ForwardedDevice::allocate(bytes);
  }
  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(static_cast<double>(from.size()) / kSlow);
    ForwardedDevice::copy(lane, to, from);
    if (from.data() == pinned.data())
      while (std::chrono::steady_clock::now() < end) {
      }
  }
  std::span<std::byte> pinned;
  std::size_t most_allocated = 0, room = std::numeric_limits<std::size_t>::max();
};

TEST(DeviceProbe, SeesTheSlowerDirection) {
  SlowUp device;
  const DeviceRates rates = probe_device(device, OptimizerSpec{}, kMuch);
  EXPECT_GT(rates.up, 0);
  EXPECT_LE(static_cast<double>(rates.up), kSlow);
  EXPECT_GT(rates.down, 0);
  EXPECT_GT(rates.update_numel, 0);
  EXPECT_EQ(device.most_allocated, std::size_t{32} << 20);
}

// If little memory is free, the probe allocates nothing and measures nothing.
TEST(DeviceProbe, TakesASixteenthOfFreeMemory) {
  SlowUp device;
  EXPECT_GT(probe_device(device, OptimizerSpec{}, 64 << 20).up, 0);
  EXPECT_EQ(device.most_allocated, std::size_t{4} << 20);
  device.most_allocated = 0;
  EXPECT_EQ(probe_device(device, OptimizerSpec{}, 15 << 20).up, 0);
  EXPECT_EQ(device.most_allocated, 0U);
}

TEST(DeviceProbe, TakesLessOnAFullDevice) {
  SlowUp device;
  device.room = std::size_t{5} << 20;
  EXPECT_GT(probe_device(device, OptimizerSpec{}, kMuch).up, 0);
  EXPECT_EQ(device.most_allocated, std::size_t{4} << 20);
  device.room = 0;
  EXPECT_EQ(probe_device(device, OptimizerSpec{}, kMuch).up, 0);
}

// An engine probes a device that finds races.
std::vector<TierRates> rates_of(const OptimizerOptions& rule) {
  std::vector<RecordedDevice> devices(2);
  ScriptedSteps steps{.steps = 1, .host = {.probes = true}};
  steps.device = [&devices](int rank) { return &devices[static_cast<std::size_t>(rank)]; };
  AttachOptions options{.stage = 3, .optimizer = rule};
  options.offload.fractions = {.optimizer = {.host = 0.5}};
  const ScriptedRun run = scripted_run(2, small_specs(), options, steps);
  return {run.reports[0].rates, run.reports[1].rates};
}

TEST(DeviceProbe, RanksAgreeOnTheSlowest) {
  const auto rates = rates_of(AdamWOptions{});
  for (const double TierRates::*rate : {&TierRates::link_up, &TierRates::link_down, &TierRates::device_update_numel}) {
    EXPECT_GT(rates[0].*rate, 0);
    EXPECT_EQ(rates[0].*rate, rates[1].*rate);
  }
}

TEST(DeviceProbe, HostUpdatedRuleHasNoRate) {
  EXPECT_GT(rates_of(MuonOptions{})[0].device_update_numel, 0);
  const auto rates = rates_of(OwnRule{.rule = make_update_rule(AdamWOptions{})});
  EXPECT_GT(rates[0].link_up, 0);
  EXPECT_EQ(rates[0].device_update_numel, 0);
  EXPECT_GT(rates[0].update_numel, 0);
}

}  // namespace
}  // namespace zero
