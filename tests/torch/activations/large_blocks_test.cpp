#include "zero/torch/activations/large_blocks.h"

#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace zero {
namespace {

// Blocks of all sizes also return to the allocator.
TEST(LargeBlocks, TensorsOfAllSizesKeepValues) {
  const torch::Tensor before = torch::ones({1 << 20});  // from the previous allocator
  keep_large_blocks();
  keep_large_blocks();
  for (const std::int64_t numel : {0, 1, 1000, 1 << 18, 5'000'001}) {
    const torch::Tensor tensor = torch::full({numel}, 3.0F);
    EXPECT_EQ(tensor.clone().sum().item<double>(), 3.0 * static_cast<double>(numel));
  }
  EXPECT_EQ(before.sum().item<float>(), 1 << 20);
}

TEST(LargeBlocks, FreedBlockServesNextTensor) {
  keep_large_blocks();
  const void* first = torch::ones({4 << 20}).const_data_ptr();
  EXPECT_EQ(torch::ones({4 << 20}).const_data_ptr(), first);
}

// The tensor is freed on another thread.
TEST(LargeBlocks, TensorMayBeFreedElsewhere) {
  keep_large_blocks();
  torch::Tensor tensor = torch::ones({4 << 20});
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(torch::ones({4 << 20}).sum().item<float>(), 4 << 20);
}

}  // namespace
}  // namespace zero
