#include "zero/torch/pipeline/forward/kept_by_autograd.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/forward_plan.h"

namespace zero {
namespace {

using Numbers = std::vector<std::size_t>;

torch::Tensor meta(const std::vector<std::int64_t>& sizes, bool requires_grad = true) {
  return torch::empty(sizes, torch::dtype(torch::kFloat).device(torch::kMeta)).requires_grad_(requires_grad);
}

KeptByAutograd kept(const char* name, const char* overload, const torch::jit::Stack& stack) {
  return kept_by_autograd(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), stack);
}

TEST(KeptByAutograd, FactorsAreKept) {
  const KeptByAutograd both = kept("aten::mul", "Tensor", {meta({4}), meta({4})});
  EXPECT_EQ(both.arguments, (Numbers{0, 1}));
  EXPECT_EQ(both.results, Numbers());
  EXPECT_EQ(both.own_bytes, 0);
  EXPECT_EQ(kept("aten::mul", "Tensor", {meta({4}), meta({4}, false)}).arguments, Numbers{1}) << "one gradient";
  EXPECT_EQ(kept("aten::add", "Tensor", {meta({4}), meta({4}), 1}).arguments, Numbers()) << "an addition";
}

TEST(KeptByAutograd, ResultsAreKept) {
  const KeptByAutograd tanh = kept("aten::tanh", "", {meta({4})});
  EXPECT_EQ(tanh.arguments, Numbers());
  EXPECT_EQ(tanh.results, Numbers{0});
  const std::vector<std::int64_t> normalized{8};
  const KeptByAutograd norm =
      kept("aten::native_layer_norm", "", {meta({4, 8}), normalized, meta({8}), meta({8}), 1e-5});
  EXPECT_EQ(norm.results, (Numbers{1, 2})) << "mean and 1 / deviation";
  EXPECT_EQ(norm.arguments.front(), 0U);
}

TEST(KeptByAutograd, WrittenArgumentsAreKept) {
  const KeptByAutograd relu = kept("aten::relu_", "", {meta({4})});
  EXPECT_EQ(relu.arguments, Numbers{0});
  EXPECT_EQ(relu.results, Numbers{0});
  const KeptByAutograd product = kept("aten::mul_", "Tensor", {meta({4}), meta({4})});
  EXPECT_EQ(product.arguments, Numbers{1});
  EXPECT_EQ(product.own_bytes, 4 * sizeof(float)) << "the argument before it was written";
}

TEST(KeptByAutograd, NothingIsKeptWithoutGradients) {
  EXPECT_EQ(kept("aten::tanh", "", {meta({4}, false)}).results, Numbers());
  const torch::NoGradGuard no_gradients;
  EXPECT_EQ(kept("aten::tanh", "", {meta({4})}).results, Numbers());
}

// A batch that exists before the pass, a mask that the pass makes, and a parameter.
TEST(KeptByAutograd, TheGraphHasKeptValues) {
  torch::nn::Linear net(8, 8);
  const torch::Tensor x = torch::ones({4, 8});
  const ModuleParameters parameters = parameters_of(*net, std::nullopt);
  const ForwardGraph graph = learn_forward(parameters, [&] {
                               return (net->forward(x) * torch::ones({4, 8}).mul(2)).tanh().sum();
                             }).graph;
  ASSERT_EQ(graph.constants.size(), 2U) << "ones and their double";
  EXPECT_EQ(graph.constants[1].bytes, 4 * 8 * 4);
  EXPECT_EQ(graph.param_bytes.size(), 2U);
  EXPECT_EQ(graph.param_bytes[0] + graph.param_bytes[1], (8 * 8 + 8) * 4);
  std::vector<std::string> names;
  for (const GraphOperator& op : graph.operators) {
    if (op.everywhere) continue;
    names.push_back(op.name);
    if (op.name == "aten::addmm") {
      EXPECT_EQ(op.saved, std::vector<int>()) << "x is older than the pass";
      EXPECT_EQ(op.product, std::nullopt) << "x needs no gradient";
    } else if (op.name == "aten::mul") {
      EXPECT_EQ(op.saved, std::vector<int>());
      EXPECT_EQ(op.saved_constants, std::vector<int>{1});
    } else if (op.name == "aten::tanh") {
      EXPECT_EQ(op.saved, op.outputs);
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"aten::addmm", "aten::mul", "aten::tanh", "aten::sum"}));
}

TEST(KeptByAutograd, ProductsOfInnerValuesWait) {
  torch::nn::Sequential net{torch::nn::Linear(8, 8), torch::nn::Linear(8, 4)};
  const torch::Tensor x = torch::ones({4, 8});
  const ModuleParameters parameters = parameters_of(*net, std::nullopt);
  const ForwardGraph graph = learn_forward(parameters, [&] { return net->forward(x).sum(); }).graph;
  const GraphOperator& second = graph.operators.at(1);
  ASSERT_TRUE(second.product);
  EXPECT_EQ(second.product->input, 0);
  EXPECT_EQ(graph.params.at(static_cast<std::size_t>(second.product->param)), "1.weight");
}

}  // namespace
}  // namespace zero
