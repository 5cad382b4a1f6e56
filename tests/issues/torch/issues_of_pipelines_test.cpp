// Bugs that other programs had in pipelines, and that must not appear here (tests/issues/README.md).
#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

torch::Tensor input(int step, int micro, int rank) {
  return (torch::arange(20) * (2 * step + 3) + micro * 5 + rank * 11).remainder(17).to(torch::kFloat).view({4, 5}) / 8 -
         1;
}

// The weight of each part has two products, and the second takes the result of the first: x W^T W^T.
struct RepeatedNet : torch::nn::Module {
  RepeatedNet() {
    register_module("parts", parts);
    for (int i = 0; i < 4; ++i) parts->push_back(torch::nn::Linear(5, 5));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& part : *parts) {
      auto& linear = *part->as<torch::nn::LinearImpl>();
      x = linear.forward(torch::tanh(linear.forward(x)));
    }
    return x;
  }
  torch::nn::ModuleList parts;
};

Subject repeated_net() {
  auto net = std::make_shared<RepeatedNet>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(input(step, micro, rank)), input(step + 1, micro, rank));
          }};
}

// torch.distributed.pipelining counted both products twice if gradients of weights are made in passes of their own.
TEST(RepeatedWeights, DelayedGradientsCountOnce) {
  const AttachOptions options{.stage = 2, .clip = 0.5, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(2, 4, options, {.pipeline = 1}, repeated_net);
  for (const PassOrder order : {PassOrder::kZbH1, PassOrder::kZbH2, PassOrder::kZbV}) {
    SCOPED_TRACE(name_of(order));
    expect_same_bits(train_pipelined(4, 4, options, {.pipeline = 2, .schedule = order}, repeated_net), plain);
  }
}

// Automodel threw away micro-batches that did not fill the pipeline.
TEST(UnevenMicroBatches, AllAreTrained) {
  for (const int micros : {1, 2, 5}) {
    const AttachOptions options{.stage = 1, .accumulate = micros};
    const PipelinedRun plain = train_pipelined(1, 3, options, {.pipeline = 1}, repeated_net);
    EXPECT_EQ(plain.losses.size(), 3U * static_cast<std::size_t>(micros));
    for (const PassOrder order : {PassOrder::kGpipe, PassOrder::kOneForwardOneBackward, PassOrder::kZbH1}) {
      SCOPED_TRACE(testing::Message() << micros << " micro-batches, " << name_of(order));
      expect_same_bits(train_pipelined(3, 3, options, {.pipeline = 3, .schedule = order}, repeated_net), plain);
    }
  }
}

}  // namespace
}  // namespace zero
