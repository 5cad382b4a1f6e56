#include "zero/torch/pipeline/forward/operator_timer.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/forward_plan.h"

namespace zero {
namespace {

// A lookup with whole numbers as its index, a norm, two equal products, and an operator that writes in place.
struct Net : torch::nn::Module {
  Net() {
    table = register_module("table", torch::nn::Embedding(10, 64));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
    first = register_module("first", torch::nn::Linear(64, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor made = second(first(norm(table(x))));
    return made.relu_().pow(2).mean();
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
};

class OperatorTimerTest : public ::testing::Test {
 protected:
  ForwardGraph learn(OperatorTimer* timer) {
    const ModuleParameters parameters = parameters_of(*net_, std::nullopt);
    return learn_forward(
               parameters, [&] { return net_->forward(torch::zeros({32}, torch::kLong)); }, timer)
        .graph;
  }
  std::shared_ptr<Net> net_ = std::make_shared<Net>();
};

TEST_F(OperatorTimerTest, EachOperatorHasSeconds) {
  OperatorTimer timer;
  const ForwardGraph graph = learn(&timer);
  std::set<std::string> names;
  for (const GraphOperator& op : graph.operators) {
    if (op.everywhere) continue;  // the input, which the function makes
    names.insert(op.name);
    EXPECT_GT(op.seconds.forward, 0) << op.name;
    const bool is_product = op.name == "aten::addmm";
    EXPECT_EQ(op.seconds.weights > 0, is_product) << op.name;
    EXPECT_GT(op.seconds.inputs, 0) << op.name;
  }
  EXPECT_TRUE(names.contains("aten::embedding") && names.contains("aten::relu_") && names.contains("aten::addmm"));
  EXPECT_EQ(timer.num_measured(), static_cast<int>(names.size())) << "the two products are one";
}

// Products of tokens, [batch, tokens, width], wait as those of rows do.
TEST_F(OperatorTimerTest, ProductsOfTokensCanWait) {
  const ModuleParameters parameters = parameters_of(*net_, std::nullopt);
  OperatorTimer timer;
  const auto loss = [&] {
    const torch::Tensor made = net_->first(net_->norm(net_->table(torch::zeros({4, 8}, torch::kLong))));
    return torch::linear(made, net_->second->weight, net_->second->bias).mean();
  };
  int products = 0;
  for (const GraphOperator& op : learn_forward(parameters, loss, &timer).graph.operators) {
    const bool is_product = op.name == "aten::matmul" || op.name == "aten::linear";
    EXPECT_EQ(op.seconds.weights > 0, is_product) << op.name;
    products += is_product ? 1 : 0;
  }
  EXPECT_EQ(products, 2);
}

TEST_F(OperatorTimerTest, RandomNumbersGoOn) {
  OperatorTimer timer;
  torch::manual_seed(3);
  const torch::Tensor expected = torch::rand({4});
  torch::manual_seed(3);
  learn(&timer);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST_F(OperatorTimerTest, NobodyMeasuresWithoutATimer) {
  for (const GraphOperator& op : learn(nullptr).operators) EXPECT_EQ(op.seconds.total(), 0) << op.name;
}

TEST(OperatorTimer, GapsTakeTheirWorksMean) {
  ForwardGraph graph;
  graph.operators = {{.name = "a", .work = 10, .seconds = {.forward = 1, .inputs = 2, .weights = 2}},
                     {.name = "b", .work = 30},
                     {.name = "c", .work = 5, .everywhere = true}};
  OperatorTimer::fill_gaps(graph);
  EXPECT_DOUBLE_EQ(graph.operators[1].seconds.total(), 15);
  EXPECT_DOUBLE_EQ(graph.operators[1].seconds.weights, 5);
  EXPECT_EQ(graph.operators[2].seconds.total(), 0);
}

}  // namespace
}  // namespace zero
