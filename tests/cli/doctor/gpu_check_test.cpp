#include <gtest/gtest.h>

#include "app/cli/doctor/finding.h"
#include "tests/support/expect_says.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

GpusHere one_gpu() {
  return {
      .gpus = {{.name = "Fake GPU 0", .capability = 90, .free_bytes = 1 << 30, .total_bytes = std::int64_t{2} << 30}},
      .driver = "13.0"};
}

// The report says which device `auto` is there.
TEST(GpuFinding, MachineWithoutGpuIsFine) {
  const Finding finding = gpu_finding(find_gpus(/*memory=*/false, ""), "torch is a wheel without CUDA");
  EXPECT_EQ(finding.health, Health::kOk);
  expect_says(finding.found, {"none: libzero_device_cuda.so is not installed", "torch is a wheel without CUDA",
                              "run.device = \"auto\" is the CPU"});
}

TEST(GpuFinding, MissingLibtorchIsNoWheel) {
  const TemporaryFolder folder;
  const auto library = folder.write("libtorch_cpu.so", "");
  EXPECT_EQ(why_no_cuda_code(/*is_loaded=*/false, ""), "");
  EXPECT_EQ(why_no_cuda_code(/*is_loaded=*/true, library), "torch is a wheel without CUDA");
  folder.write("libtorch_cuda.so", "");
  EXPECT_EQ(why_no_cuda_code(/*is_loaded=*/true, library), "");
}

// The report also lists the driver, the plug-in and libtorch.
TEST(GpuFinding, NamesGpuAndFreeMemory) {
  const Finding finding = gpu_finding(one_gpu(), "");
  EXPECT_EQ(finding.health, Health::kOk);
  expect_says(finding.found, {"cuda:0 Fake GPU 0, 1.00 GiB of 2.00 GiB free", "driver for CUDA 13.0", "plug-in found",
                              "torch with CUDA"});
}

TEST(GpuFinding, WarnsIfLibtorchCannotUseIt) {
  const Finding finding = gpu_finding(one_gpu(), "this is a wheel of torch without CUDA (/torch/lib)");
  EXPECT_EQ(finding.health, Health::kWarn);
  expect_says(finding.found, {"a wheel of torch without CUDA", "is the CPU"});
  expect_says(finding.remedy, {"with CUDA 13"});
}

TEST(GpuFinding, WarnsOfAnOldDriver) {
  const GpusHere here{.driver = "12.8", .reason = "the driver is too old", .remedy = "install driver 580 or later"};
  const Finding finding = gpu_finding(here, "");
  EXPECT_EQ(finding.health, Health::kWarn);
  expect_says(finding.found, {"cannot be used: the driver is too old"});
  EXPECT_EQ(finding.remedy, "install driver 580 or later");
}

}  // namespace
}  // namespace zero::cli
