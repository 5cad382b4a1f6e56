// OnTheGpu: a test on the device that ZERO_TEST_DEVICE names; without it the test is passed over.
//
//   TEST_F(OnTheGpu, ...) { run_there(kCast, arguments); }     // addresses on the device: DeviceArrays brings them
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "zero/device/open_device.h"

namespace zero {

class OnTheGpu : public testing::Test {
 protected:
  void SetUp() override {
    const char* const name = std::getenv("ZERO_TEST_DEVICE");
    if (name == nullptr) GTEST_SKIP() << "ZERO_TEST_DEVICE=cuda tries the kernels on a GPU";
    device_ = open_device(std::string_view(name) == "host" ? "cpu" : name);
  }
  Device& device() { return *device_; }

  template <typename Arguments>
  void run_there(const Kernel& kernel, const Arguments& arguments) {
    run(device(), Lane::kUpdate, kernel, arguments, {});
  }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace zero
