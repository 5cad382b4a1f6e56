#include "app/cli/bench/parts/device_update.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"

#include "tests/support/expect_says.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kNumel = 1000 * 256;

TEST(DeviceUpdate, TouchesWhatTheRuleTouches) {
  HostDevice host;
  EXPECT_EQ(DeviceUpdate(host, SgdOptions{}, UpdatePass::kUpdate, kNumel).touched_bytes(), 12 * kNumel);
  EXPECT_EQ(DeviceUpdate(host, AdamWOptions{}, UpdatePass::kUpdate, kNumel).touched_bytes(), 28 * kNumel);
  EXPECT_EQ(DeviceUpdate(host, AdamW8bitOptions{}, UpdatePass::kUpdate, kNumel).touched_bytes(),
            16 * kNumel + 4 * (kNumel / 256) * 4);
}

TEST(DeviceUpdate, RunsOnWhateverDevice) {
  HostDevice host;
  DeviceUpdate update(host, AdamWOptions{}, UpdatePass::kUpdate, kNumel + 100);
  update.run();
  update.copy();
}

TEST(DeviceUpdate, MeasuresMatrixPassesSeparately) {
  HostDevice host;
  DeviceUpdate direct(host, MuonOptions{}, UpdatePass::kDirection, kNumel);
  EXPECT_EQ(direct.touched_bytes(), 16 * kNumel) << "gradient and momentum, momentum and directions";
  direct.run();
  DeviceUpdate step(host, MuonOptions{}, UpdatePass::kStep, kNumel);
  EXPECT_EQ(step.touched_bytes(), 12 * kNumel) << "directions and parameter, and the parameter";
  step.run();
}

TEST(DeviceUpdate, RefusesRulesOverWholeParameters) {
  HostDevice host;
  expect_says(message_of<ConfigError>([&] { DeviceUpdate(host, LambOptions{}, UpdatePass::kUpdate, kNumel); }),
              {"--name = lamb", "--device cpu"});
}

}  // namespace
}  // namespace zero::cli
