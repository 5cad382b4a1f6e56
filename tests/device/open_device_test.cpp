#include "zero/device/open_device.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/expect_says.h"

namespace zero {
namespace {

TEST(OpenDevice, TheCpuIsMainMemory) {
  EXPECT_EQ(open_device("cpu", "")->name(), "host");
}

TEST(OpenDevice, AutoIsMainMemoryWithoutPlugin) {
  EXPECT_EQ(open_device("auto", "")->name(), "host");
}

TEST(OpenDevice, MissingGpuPluginExplainsBuilding) {
  const std::string message = message_of<ConfigError>([] { open_device("cuda:1", ""); });
  expect_says(message, {"run.device = cuda:1", "libzero_device_cuda.so is not installed", "-DZERO_CUDA=ON"});
}

TEST(OpenDevice, UnknownNameListsTheKnown) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
    const std::string message = message_of<ConfigError>([name] { open_device(name, ""); });
    expect_says(message, {"there is no such device", "auto, cpu, cuda or cuda:1"});
  }
}

TEST(OpenDevice, RefusesFilesThatAreNoPlugin) {
  const std::string absent = message_of<ConfigError>([] { open_device("cuda", "/nowhere/libzero_device_cuda.so"); });
  expect_says(absent, {"/nowhere/libzero_device_cuda.so", "libcudart"});
  const std::string other = message_of<ConfigError>([] { open_device("auto", "libc.so.6"); });
  expect_says(other, {"libc.so.6 is not a plug-in of zero.cpp"});
}

// Unless the user names a GPU.
TEST(DeviceOfRank, RanksTakeGpusInTurn) {
  const GpusHere two{.gpus = {{.name = "first"}, {.name = "second"}}};
  EXPECT_EQ(device_of_rank("cuda", 0, two), "cuda:0");
  EXPECT_EQ(device_of_rank("cuda", 1, two), "cuda:1");
  EXPECT_EQ(device_of_rank("cuda", 2, two), "cuda:0");
  EXPECT_EQ(device_of_rank("auto", 3, two), "cuda:1");
  EXPECT_EQ(device_of_rank("cuda:1", 0, two), "cuda:1");
  EXPECT_EQ(device_of_rank("cpu", 1, two), "cpu");
  expect_says(message_of<ConfigError>([&] { device_of_rank("cuda:2", 0, two); }),
              {"there are 2 GPUs", "use cuda:0 to cuda:1"});
}

// A named GPU is refused.
TEST(DeviceOfRank, AutoWithoutGpusIsTheCpu) {
  const GpusHere none = find_gpus(/*memory=*/false, "");
  EXPECT_TRUE(none.none_here);
  EXPECT_EQ(device_of_rank("auto", 0, none), "cpu");
  expect_says(message_of<ConfigError>([&] { device_of_rank("cuda", 0, none); }),
              {"run.device = cuda", "libzero_device_cuda.so is not installed"});
  const GpusHere broken{.reason = "the driver is too old", .remedy = "install another"};
  expect_says(message_of<ConfigError>([&] { device_of_rank("auto", 0, broken); }), {"the driver is too old"});
}

}  // namespace
}  // namespace zero
