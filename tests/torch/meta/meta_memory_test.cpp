#include "zero/torch/meta/meta_memory.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace zero {
namespace {

torch::Tensor on_meta(at::IntArrayRef sizes) {
  return torch::empty(sizes, torch::TensorOptions().device(torch::kMeta));
}

TEST(MetaMemory, CountsLiveBytesAndTheirPeak) {
  const MetaMemory memory;
  torch::Tensor kept = on_meta({256});
  {
    const torch::Tensor passing = on_meta({1024}) * 2;
    EXPECT_GE(memory.live_bytes(), 5120);
  }
  EXPECT_EQ(memory.live_bytes(), 1024);
  EXPECT_EQ(memory.peak_bytes(), 1024 + 2 * 4096);
  kept.reset();
  EXPECT_EQ(memory.live_bytes(), 0);
}

TEST(MetaMemory, WhatAutogradKeepsLivesUntilBackward) {
  const MetaMemory memory;
  const torch::Tensor weight = on_meta({64, 64}).requires_grad_(true);
  const std::int64_t own = memory.live_bytes();
  torch::Tensor loss = (on_meta({32, 64}).mm(weight).exp().exp()).sum();
  EXPECT_GE(memory.live_bytes() - own, 3 * 32 * 64 * 4) << "the input, and both results of exp()";
  loss.backward();
  loss.reset();
  EXPECT_EQ(memory.live_bytes() - own, 64 * 64 * 4) << "the gradient";
}

// Tensors that change after the end of a MetaMemory do not count.
TEST(MetaMemory, TensorsMayOutliveIt) {
  torch::Tensor tensor;
  {
    const MetaMemory memory;
    tensor = on_meta({8});
  }
  tensor.resize_({4096});
  const MetaMemory other;
  EXPECT_EQ(other.live_bytes(), 0);
  tensor.reset();
  EXPECT_EQ(other.live_bytes(), 0);
}

}  // namespace
}  // namespace zero
