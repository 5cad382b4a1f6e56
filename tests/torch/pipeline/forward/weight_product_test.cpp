#include "zero/torch/pipeline/forward/weight_product.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace zero {
namespace {

// The gradient that autograd gives the parameter, and the one made later, for the matrix as it is and transposed.
TEST(WeightProduct, HasTheBitsOfAutograd) {
  torch::manual_seed(3);
  for (const bool transposed : {false, true})
    for (const auto type : {torch::kFloat, torch::kBFloat16})
      for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{5, 7, 3}, {64, 33, 48}, {1, 16, 16}}) {
        SCOPED_TRACE(testing::Message() << transposed << ' ' << m << ' ' << k << ' ' << n);
        const torch::Tensor parameter =
            torch::randn(transposed ? std::vector{n, k} : std::vector{k, n}).to(type).requires_grad_(true);
        const torch::Tensor input = torch::randn({m, k}).to(type).requires_grad_(true);
        const torch::Tensor matrix = transposed ? parameter.t() : parameter;
        const torch::Tensor gradient = torch::randn({m, n}).to(type);
        torch::autograd::backward({torch::mm(input, matrix)}, {gradient});
        const WeightProduct product{.param = 0,
                                    .transposed = transposed,
                                    .input = input.detach(),
                                    .sizes = matrix.sizes().vec(),
                                    .strides = matrix.strides().vec(),
                                    .version = input._version(),
                                    .gradient = gradient};
        EXPECT_TRUE(product.has_its_input());
        EXPECT_TRUE(torch::equal(product.gradient_of_parameter(), parameter.grad()));
      }
}

torch::Tensor multiply(bool by_linear, const torch::Tensor& input, const torch::Tensor& weight) {
  return by_linear ? torch::linear(input, weight, torch::ones({weight.size(0)}, weight.options()).detach())
                   : torch::matmul(input, weight.t());
}

// linear() and matmul() of nn::Linear on tokens, [batch, tokens, width]. A gradient may have any strides.
TEST(WeightProduct, TokensHaveTheBitsOfAutograd) {
  torch::manual_seed(4);
  for (const bool by_linear : {false, true})
    for (const auto type : {torch::kFloat, torch::kBFloat16})
      for (const bool is_transposed_gradient : {false, true}) {
        SCOPED_TRACE(testing::Message() << by_linear << ' ' << type << ' ' << is_transposed_gradient);
        const torch::Tensor weight = torch::randn({24, 40}).to(type).requires_grad_(true);
        const torch::Tensor input = torch::randn({3, 17, 40}).to(type).requires_grad_(true);
        const torch::Tensor gradient = is_transposed_gradient ? torch::randn({17, 3, 24}).to(type).transpose(0, 1)
                                                              : torch::randn({3, 17, 24}).to(type);
        const torch::Tensor result = multiply(by_linear, input, weight);
        torch::autograd::backward({result}, {gradient});
        const torch::Tensor matrix = weight.t();
        const WeightProduct product{.param = 0,
                                    .transposed = true,
                                    .input = input.detach(),
                                    .sizes = matrix.sizes().vec(),
                                    .strides = matrix.strides().vec(),
                                    .version = input._version(),
                                    .gradient = gradient};
        EXPECT_TRUE(product.has_its_input());
        EXPECT_TRUE(torch::equal(product.gradient_of_parameter(), weight.grad()));
        // A matrix without a gradient leaves the forward pass and the gradient of the input as they are.
        const torch::Tensor other = input.detach().requires_grad_(true);
        const torch::Tensor quiet = multiply(by_linear, other, weight.detach());
        EXPECT_TRUE(torch::equal(quiet, result));
        torch::autograd::backward({quiet}, {gradient});
        EXPECT_TRUE(torch::equal(other.grad(), input.grad()));
      }
}

// Views share the version of their base.
TEST(WeightProduct, WritesInPlaceAreNoticed) {
  torch::Tensor base = torch::ones({4, 4});
  const torch::Tensor view = base.t();
  const WeightProduct whole{.input = base.detach(), .version = base._version()};
  const WeightProduct of_view{.input = view.detach(), .version = view._version()};
  const torch::Tensor result = base + 1;
  EXPECT_TRUE(whole.has_its_input() && of_view.has_its_input());
  base.add_(result);
  EXPECT_FALSE(whole.has_its_input());
  EXPECT_FALSE(of_view.has_its_input());
}

TEST(WeightProduct, OnlyPlainProductsWait) {
  const auto arguments = [](const char* name, torch::jit::Stack stack) {
    return product_arguments(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), stack);
  };
  const torch::Tensor x = torch::ones({2, 2});
  EXPECT_EQ(arguments("aten::mm", {x, x})->matrix, 1U);
  EXPECT_EQ(arguments("aten::addmm", {x, x, x, 1, 1})->matrix, 2U);
  EXPECT_FALSE(arguments("aten::addmm", {x, x, x, 1, 2})) << "a factor";
  EXPECT_FALSE(arguments("aten::bmm", {x, x}));
  const torch::Tensor tokens = torch::ones({3, 2, 2}), none;
  EXPECT_FALSE(arguments("aten::matmul", {tokens, x})->by_transpose);
  EXPECT_TRUE(arguments("aten::linear", {tokens, x, none})->by_transpose);
  EXPECT_FALSE(arguments("aten::matmul", {tokens, tokens})) << "a product for each batch";
  EXPECT_FALSE(arguments("aten::matmul", {tokens.transpose(0, 1), x})) << "libtorch may not fold it";
  EXPECT_FALSE(arguments("aten::linear", {torch::ones({2}), x, none})) << "one dimension";
  EXPECT_FALSE(arguments("aten::linear", {torch::ones({3, 0, 2}), x, none})) << "no elements";
}

}  // namespace
}  // namespace zero
