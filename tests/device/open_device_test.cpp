#include "zero/device/open_device.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/expect_says.h"

namespace zero {
namespace {

TEST(OpenDevice, TheCpuIsMainMemory) {
  EXPECT_EQ(open_device("cpu", "")->name(), "host");
}

TEST(OpenDevice, AutomaticallyItIsMainMemoryWhereThereIsNoPlugIn) {
  EXPECT_EQ(open_device("auto", "")->name(), "host");
}

TEST(OpenDevice, AGpuWithoutAPlugInIsRefusedWithHowToBuildIt) {
  const std::string message = message_of<ConfigError>([] { open_device("cuda:1", ""); });
  expect_says(message, {"run.device = cuda:1", "libzero_device_cuda.so is not there", "-DZERO_CUDA=ON"});
}

TEST(OpenDevice, ANameThatIsNoDeviceIsRefusedWithThoseThatAre) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
    const std::string message = message_of<ConfigError>([name] { open_device(name, ""); });
    expect_says(message, {"there is no such device", "auto, cpu, cuda or cuda:1"});
  }
}

TEST(OpenDevice, AFileThatIsNoPlugInIsRefused) {
  const std::string absent = message_of<ConfigError>([] { open_device("cuda", "/nowhere/libzero_device_cuda.so"); });
  expect_says(absent, {"/nowhere/libzero_device_cuda.so", "libcudart"});
  const std::string other = message_of<ConfigError>([] { open_device("auto", "libc.so.6"); });
  expect_says(other, {"libc.so.6 is no plug-in of zero.cpp"});
}

}  // namespace
}  // namespace zero
