#include "zero/torch/activations/saved_input.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(SavedInput, ReturnsAtItsGraphsRoot) {
  const torch::Tensor x = torch::ones({2, 3}).requires_grad_() * 2;
  const torch::Tensor leaf = SavedInput(x, nullptr).leaf();
  EXPECT_TRUE(leaf.requires_grad());
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_EQ(leaf.const_data_ptr(), x.const_data_ptr()) << "no copy";
}

// If the input needs no gradient, neither does its saved leaf.
TEST(SavedInput, NeedsGradientLikeItsInput) {
  EXPECT_FALSE(SavedInput(torch::ones({2}), nullptr).leaf().requires_grad());
  EXPECT_FALSE(SavedInput(torch::arange(3), nullptr).leaf().requires_grad());
}

TEST(SavedInput, UndefinedStaysUndefined) {
  EXPECT_FALSE(SavedInput(torch::Tensor(), nullptr).leaf().defined());
}

TEST(SavedInput, WrittenInPlaceIsLibtorchsError) {
  torch::Tensor x = torch::ones({2});
  const SavedInput kept(x, nullptr);
  x.add_(1);
  EXPECT_TRUE(says(message_of<c10::Error>([&] { kept.leaf(); }), "modified by an inplace operation"));
}

}  // namespace
}  // namespace zero
