#include "app/train/machine/device_memory.h"

#include <gtest/gtest.h>

#include "tests/support/expect_says.h"

namespace zero {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

DeviceMemoryUse some_use() {
  DeviceMemoryUse use{.device = "cuda:1", .most_held = 12 * kGiB, .torch = 60 * kGiB};
  use.held[MemoryTag::kParameter] = 4 * kGiB;
  use.held[MemoryTag::kMoment] = 8 * kGiB;
  return use;
}

// The messages are libtorch's or zero.cpp's.
TEST(DeviceMemory, FindsRequestedBytesInMessages) {
  EXPECT_EQ(asked_bytes("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"), 2 * kGiB);
  EXPECT_EQ(asked_bytes("Tried to allocate 512.00 MiB"), kGiB / 2);
  EXPECT_EQ(asked_bytes("memory = 1.50 GiB: cuda:0 has 1 MiB of its 81920 MiB free"), 3 * kGiB / 2);
  EXPECT_EQ(asked_bytes("memory = 4096 B: cuda:0 is full"), 4096);
  EXPECT_EQ(asked_bytes("no number at all"), 0);
  EXPECT_EQ(asked_bytes("Tried to allocate "), 0);
}

TEST(DeviceMemory, GpuLibrariesUseOtherWords) {
  EXPECT_TRUE(is_out_of_memory("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"));
  EXPECT_TRUE(is_out_of_memory("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"));
  EXPECT_TRUE(is_out_of_memory("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"));
  EXPECT_FALSE(is_out_of_memory("CUDA error: an illegal memory access was encountered"));
  EXPECT_FALSE(is_out_of_memory("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"));
}

TEST(DeviceMemory, SuggestsRestartWithoutBudget) {
  DeviceMemoryUse use = some_use();
  use.next_run_leaves = 90 * kGiB;
  expect_says(device_memory_error(use, 1, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED").what(),
              {"start the run again, which then leaves 90.0 GiB to libtorch (zero.device_memory = auto)"});
}

// The error lists the holders by tag.
TEST(DeviceMemory, NamesHoldersAndSufficientBudget) {
  const std::string said =
      device_memory_error(some_use(), 7, "CUDA out of memory. Tried to allocate 2.00 GiB.\nmore").what();
  expect_says(said, {"memory = 2.00 GiB: cuda:1 is full in step 7: CUDA out of memory", "held 12.0 GiB there at most",
                     "parameter 4.00 GiB, moment 8.00 GiB", "libtorch holds 60.0 GiB for activations",
                     "zero.device_memory 10737418240 B (10.0 GiB) or less", "train.checkpoint_activations"});
  EXPECT_EQ(said.find("more\n"), std::string::npos) << "the first line of libtorch's is enough";
}

TEST(DeviceMemory, NamesNoBudgetIfNoneSuffices) {
  const std::string said = device_memory_error(some_use(), 1, "Tried to allocate 20.00 GiB").what();
  EXPECT_EQ(said.find("zero.device_memory"), std::string::npos) << said;
  expect_says(said, {"a smaller train.batch"});
}

}  // namespace
}  // namespace zero
