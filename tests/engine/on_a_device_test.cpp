// An engine on a device whose memory the host cannot touch, and which finds every race. With ZERO_TEST_DEVICE=cuda the device
// is a GPU, which finds none, and has all of these bits, too.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/device/open_device.h"
#include "zero/device/recorded_device.h"

#include "../expect_contains.h"
#include "../temporary_folder.h"
#include "../tier.h"
#include "scripted_run.h"

namespace zero {
namespace {

// One device for each rank, which outlive their engines.
struct Devices {
  explicit Devices(int world, const RecordedDevice::Options& options = {}) {
    const char* const name = std::getenv("ZERO_TEST_DEVICE");
    for (int rank = 0; rank < world; ++rank) {
      if (name != nullptr) {
        all.push_back(open_device(name));
      } else {
        all.push_back(std::make_unique<RecordedDevice>(options));
      }
    }
  }
  std::vector<std::unique_ptr<Device>> all;
};

ScriptedRun run_on(Devices* devices, int world, const std::vector<ParamSpec>& specs, const EngineOptions& options) {
  ScriptedSteps steps{.steps = 3};
  if (devices != nullptr)
    steps.device = [devices](int rank) { return devices->all[static_cast<std::size_t>(rank)].get(); };
  return scripted_run(world, specs, options, steps);
}

void expect_host_bits(int world, const std::vector<ParamSpec>& specs, const EngineOptions& options) {
  Devices devices(world);
  EXPECT_EQ(run_on(&devices, world, specs, options), run_on(nullptr, world, specs, options)) << options.stage;
}

TEST(OnADevice, EachStageHasTheBitsOfTheHost) {
  for (const int world : {1, 2})
    for (const EngineOptions& options : at_all_stages({})) expect_host_bits(world, small_specs(), options);
}

TEST(OnADevice, OneRankHoldsUnitsWholeAtAnyStage) {
  for (const EngineOptions& options : {EngineOptions{.stage = 3}, EngineOptions{.stage = 1, .accumulate = 2}}) {
    Devices devices(1);
    const ScriptedRun run = run_on(&devices, 1, small_specs(DType::kBFloat16), options);
    EXPECT_EQ(run.reports.front().peak_memory[MemoryTag::kGathered], 0) << options.stage;
    EXPECT_EQ(run, run_on(nullptr, 1, small_specs(DType::kBFloat16), options)) << options.stage;
  }
}

TEST(OnADevice, LowPrecisionAndMicroBatchesHaveThem) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const EngineOptions& options : at_all_stages({.accumulate = 2}))
      expect_host_bits(2, small_specs(dtype), options);
}

TEST(OnADevice, StatesOnTheHostHaveThem) {
  EngineOptions options{.stage = 3};
  options.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 1}};
  expect_host_bits(2, small_specs(), options);
  options.offload.fractions = {.optimizer = {.host = 0.5}};
  expect_host_bits(2, small_specs(DType::kBFloat16), options);
}

TEST(OnADevice, WorkThatRunsAsLateAsItMayHasThem) {
  EngineOptions on_host{.stage = 3, .accumulate = 2};
  on_host.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
  std::vector<EngineOptions> all = at_all_stages({.accumulate = 2});
  all.push_back(on_host);
  for (const EngineOptions& options : all) {
    const ScriptedRun expected = run_on(nullptr, 2, small_specs(DType::kBFloat16), options);
    for (std::uint64_t seed = 1; seed <= (in_full_tier() ? 8U : 2U); ++seed) {
      Devices devices(2, {.late = seed, .far_behind = seed % 2 == 0});
      EXPECT_EQ(run_on(&devices, 2, small_specs(DType::kBFloat16), options), expected) << options.stage << ", " << seed;
    }
  }
}

TEST(OnADevice, StatesOnADiskHaveThem) {
  const TemporaryFolder folder;
  EngineOptions options{.stage = 3};
  options.offload.disk = {folder.path().string()};
  options.offload.fractions = {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
  expect_host_bits(2, small_specs(), options);
  options.offload.fractions = {
      .parameter = {.host = 0.4, .disk = 0.35}, .gradient = {.host = 0.2, .disk = 0.3}, .optimizer = {.disk = 0.45}};
  expect_host_bits(2, small_specs(DType::kBFloat16), options);
}

TEST(OnADevice, OtherRulesAverageAndDelayHaveThem) {
  expect_host_bits(2, small_specs(), {.stage = 3, .optimizer = SgdOptions{.momentum = 0.9}, .ema = 0.9});
  expect_host_bits(2, small_specs(DType::kBFloat16), {.stage = 1, .optimizer = AdamW8bitOptions{}});
  expect_host_bits(2, small_specs(), {.stage = 3, .delayed_update = true});
  expect_host_bits(1, small_specs(), {.stage = 0, .optimizer = LionOptions{}});
}

TEST(OnADevice, WhatNeedsTheHostsCodeIsRefusedByName) {
  const auto refused = [](const EngineOptions& options) {
    Devices devices(2);
    std::string text;
    try {
      run_on(&devices, 2, small_specs(), options);
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  EXPECT_CONTAINS(refused({.optimizer = LambOptions{}}), "optimizer.name = lamb");
  EXPECT_CONTAINS(refused({.group = 1}), "zero.group");
  EngineOptions below{.stage = 2};
  below.offload.fractions = {.optimizer = {.host = 1}};
  EXPECT_CONTAINS(refused(below), "zero.stage = 2");
}

}  // namespace
}  // namespace zero
