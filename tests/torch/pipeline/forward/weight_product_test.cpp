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
                                    .gradient = gradient};
        EXPECT_TRUE(torch::equal(product.gradient_of_parameter(), parameter.grad()));
      }
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
}

}  // namespace
}  // namespace zero
