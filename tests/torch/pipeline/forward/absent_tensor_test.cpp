#include "zero/torch/pipeline/forward/absent_tensor.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

const TensorLayout kLayout{{2, 3}, {3, 1}, at::kFloat};

TEST(AbsentTensor, ViewsKnowTheValue) {
  const at::Tensor absent = absent_tensor(9, kLayout, "aten::mm");
  EXPECT_EQ(absent.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(absent_value(absent.view({6}).slice(0, 2)), 9);
  EXPECT_EQ(absent_value(absent.transpose(0, 1)), 9);
  EXPECT_EQ(absent_value(torch::zeros({2})), std::nullopt);
  EXPECT_EQ(absent_value(at::Tensor()), std::nullopt);
}

TEST(AbsentTensor, ReadsThrow) {
  const at::Tensor absent = absent_tensor(0, kLayout, "aten::mm");
  const auto read = [&] { (void)absent.const_data_ptr<float>(); };
  EXPECT_TRUE(says(message_of<c10::Error>(read), "aten::mm: another section of the pipeline has this tensor"));
  EXPECT_THROW(absent.sum().item(), c10::Error);
  EXPECT_THROW(absent.fill_(1), c10::Error);
}

TEST(AbsentTensor, FillingFillsViews) {
  const at::Tensor absent = absent_tensor(4, kLayout, "aten::mm");
  const at::Tensor view = absent.transpose(0, 1);
  const at::Tensor values = torch::arange(6, torch::kFloat).reshape({2, 3});
  EXPECT_FALSE(is_filled(absent));
  fill_absent(absent, values);
  EXPECT_TRUE(is_filled(view));
  EXPECT_EQ(absent_value(view), 4);
  EXPECT_TRUE(torch::equal(view, values.t()));
}

TEST(AbsentTensor, StridesStayThePlannedOnes) {
  const at::Tensor absent = absent_tensor(0, {{2, 3}, {1, 2}, at::kFloat}, "aten::mm");
  const at::Tensor values = torch::arange(6, torch::kFloat).reshape({2, 3});
  fill_absent(absent, values);
  EXPECT_EQ(absent.stride(0), 1);
  EXPECT_TRUE(torch::equal(absent, values));
}

}  // namespace
}  // namespace zero
