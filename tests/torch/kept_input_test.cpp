#include "zero/torch/kept_input.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "tests/message_of.h"

namespace zero {
namespace {

TEST(KeptInput, ComesBackAtTheRootOfItsOwnGraph) {
  const torch::Tensor x = torch::ones({2, 3}).requires_grad_() * 2;
  const torch::Tensor leaf = KeptInput(x, nullptr).leaf();
  EXPECT_TRUE(leaf.requires_grad());
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_EQ(leaf.const_data_ptr(), x.const_data_ptr()) << "no copy";
}

TEST(KeptInput, NeedsNoGradientWhereTheInputNeededNone) {
  EXPECT_FALSE(KeptInput(torch::ones({2}), nullptr).leaf().requires_grad());
  EXPECT_FALSE(KeptInput(torch::arange(3), nullptr).leaf().requires_grad());
}

TEST(KeptInput, UndefinedStaysUndefined) {
  EXPECT_FALSE(KeptInput(torch::Tensor(), nullptr).leaf().defined());
}

TEST(KeptInput, WrittenInPlaceIsLibtorchsError) {
  torch::Tensor x = torch::ones({2});
  const KeptInput kept(x, nullptr);
  x.add_(1);
  EXPECT_TRUE(says(message_of<c10::Error>([&] { kept.leaf(); }), "modified by an inplace operation"));
}

}  // namespace
}  // namespace zero
