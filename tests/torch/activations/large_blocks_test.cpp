#include "zero/torch/activations/large_blocks.h"

#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace zero {
namespace {

// And their memory returns.

TEST(LargeBlocks, TensorsOfAllSizesKeepValues) {
  const torch::Tensor before = torch::ones({1 << 20});  // of the allocator there was
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

// On another thread.

TEST(LargeBlocks, TensorMayBeFreedElsewhere) {
  keep_large_blocks();
  torch::Tensor tensor = torch::ones({4 << 20});
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(torch::ones({4 << 20}).sum().item<float>(), 4 << 20);
}

}  // namespace
}  // namespace zero
