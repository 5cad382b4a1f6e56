#include "zero/torch/pipeline/pass/crossings.h"

#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::PipelinedRun;

// Each of its parts has a result that crosses to the second half.
struct WideNet : torch::nn::Module {
  static constexpr int kParts = 90;  // more messages a pass than a communicator holds unread
  WideNet() {
    register_module("first", first);
    register_module("second", second);
    for (int i = 0; i < kParts; ++i) {
      first->push_back(torch::nn::Linear(2, 2));
      second->push_back(torch::nn::Linear(2, 2));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (const auto& layer : *first) parts.push_back(torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x)));
    torch::Tensor sum = torch::zeros({});
    for (std::size_t i = 0; i < parts.size(); ++i)
      sum = sum + second[i]->as<torch::nn::LinearImpl>()->forward(parts[i]).pow(2).mean();
    return sum;
  }
  torch::nn::ModuleList first, second;
};

tests::Subject wide_net() {
  auto net = std::make_shared<WideNet>();
  return {net, [net](int step, int micro, int rank) {
            return net->forward(torch::full({3, 2}, 0.1 * (step + 1) + 0.3 * micro + 0.7 * rank));
          }};
}

// Rank 0 sends the values of a second micro-batch while rank 1 sends gradients of the first.
TEST(Crossings, ManyValuesDoNotBlock) {
  const AttachOptions options{.stage = 1, .accumulate = 3};
  const PipelinedRun plain = tests::train_pipelined(1, 2, options, {.pipeline = 1}, wide_net);
  const PipelineOptions pipeline{.pipeline = 2, .first_units = {"second.0"}};
  const PipelinedRun cut = tests::train_pipelined(2, 2, options, pipeline, wide_net);
  tests::expect_same_bits(cut, plain);
}

}  // namespace
}  // namespace zero
