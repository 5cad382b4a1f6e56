#include "app/models/cnn.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(Cnn, IsLeNetOnDigits) {
  Cnn model(CnnOptions{});
  std::int64_t count = 0;
  for (const auto& tensor : model->parameters()) count += tensor.numel();
  EXPECT_EQ(count, 61706) << "156 + 2,416 + 48,120 + 10,164 + 850";
}

TEST(Cnn, ReadsPicturesInColour) {
  Cnn model(CnnOptions{.height = 12, .width = 12, .channels = 3, .classes = 4});
  EXPECT_EQ(model->named_parameters()["conv1.weight"].sizes(), (std::vector<std::int64_t>{6, 3, 5, 5}));
  EXPECT_EQ(model->forward(torch::randn({2, 3 * 12 * 12})).sizes(), (std::vector<std::int64_t>{2, 4}));
}

// Each output of a convolution, as a sum over its window.
torch::Tensor convolved(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  const std::int64_t rows = x.size(2) - 4, columns = x.size(3) - 4;
  auto y = torch::empty({x.size(0), weight.size(0), rows, columns});
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto window = x.narrow(2, row, 5).narrow(3, column, 5).flatten(1);
      y.select(2, row).select(2, column).copy_(torch::matmul(window, weight.flatten(1).t()) + bias);
    }
  }
  return y.relu();
}

torch::Tensor pooled(const torch::Tensor& x) {
  const auto rows = x.size(2) / 2, columns = x.size(3) / 2;
  return x.narrow(2, 0, 2 * rows)
      .narrow(3, 0, 2 * columns)
      .reshape({x.size(0), x.size(1), rows, 2, columns, 2})
      .amax({3, 5});
}

void expect_definition(std::int64_t height, std::int64_t width) {
  torch::manual_seed(1);
  Cnn model(CnnOptions{.height = height, .width = width, .classes = 3});
  const torch::NoGradGuard no_grad;
  const auto p = [&](const std::string& name) { return model->named_parameters()[name]; };
  const auto images = torch::randn({4, height * width});
  auto x = torch::constant_pad_nd(images.view({4, 1, height, width}), {2, 2, 2, 2});
  x = pooled(convolved(x, p("conv1.weight"), p("conv1.bias")));
  x = pooled(convolved(x, p("conv2.weight"), p("conv2.bias"))).flatten(1);
  x = (torch::matmul(x, p("fc1.weight").t()) + p("fc1.bias")).relu();
  x = (torch::matmul(x, p("fc2.weight").t()) + p("fc2.bias")).relu();
  x = torch::matmul(x, p("fc3.weight").t()) + p("fc3.bias");
  EXPECT_TRUE(torch::allclose(model->forward(images), x, 1e-4, 1e-5));
}

TEST(Cnn, ComputesWhatItsDefinitionSays) {
  expect_definition(14, 14);
}

TEST(Cnn, ReadsRectangles) {
  expect_definition(14, 23);
  expect_definition(26, 12);
}

TEST(Cnn, TakesRowsOfPixelsOrImages) {
  Cnn model(CnnOptions{});
  const auto images = torch::rand({2, 1, 28, 28});
  EXPECT_TRUE(torch::equal(model->forward(images), model->forward(images.view({2, 784}))));
}

TEST(Cnn, RefusesSmallImages) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { Cnn(CnnOptions{.height = 11, .width = 11}); }), "11 x 11 pixels"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { Cnn(CnnOptions{.classes = 1}); }), "data.classes = 1"));
  EXPECT_NO_THROW(Cnn(CnnOptions{.height = 12, .width = 12}));
}

TEST(Cnn, CountsSixFlopsPerWeightUse) {
  EXPECT_EQ(flops_per_row({}), 6 * (150.0 * 28 * 28 + 2400.0 * 10 * 10 + 48000 + 10080 + 840));
}

}  // namespace
}  // namespace zero
