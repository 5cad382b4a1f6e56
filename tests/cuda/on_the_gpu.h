// OnTheGpu: a test on the device in ZERO_TEST_DEVICE. Without that variable the test is skipped.
//
//   TEST_F(OnTheGpu, ...) { run_there(kCast, arguments); }     // device addresses, from DeviceArrays
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
