// Bugs that other programs had in pipelines, and that must not appear here (tests/issues/README.md).
#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

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

// Embedding and head have a name each, and one tensor.
struct TwoNames : torch::nn::Module {
  struct Head : torch::nn::Module {
    explicit Head(const torch::Tensor& table) { weight = register_parameter("weight", table); }
    torch::Tensor weight;
  };
  TwoNames() {
    table = register_module("table", torch::nn::Embedding(11, 6));
    register_module("blocks", blocks);
    for (int i = 0; i < 3; ++i) blocks->push_back(tests::TiedBlock(6));
    head = register_module("head", std::make_shared<Head>(table->weight));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens);
    for (const auto& block : *blocks) x = block->as<tests::TiedBlockImpl>()->forward(x);
    return torch::matmul(x, head->weight.t());
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList blocks;
  std::shared_ptr<Head> head;
};

Subject two_names() {
  auto net = std::make_shared<TwoNames>();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
            return tests::next_token_loss(net->forward(tokens), tokens);
          }};
}

// Megatron-LM added gradients of embedding and head after it had sharded each of them over other ranks. Overlapped
// gathers gave embedding and head different weights. Two positions of two ranks.
TEST(TiedWeights, ShardedGradientsKeepTheTie) {
  for (const int stage : {1, 2, 3}) {
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 4};
    const PipelinedRun plain = train_pipelined(2, 4, options, {.pipeline = 1}, two_names);
    for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", " << name_of(order));
      const PipelinedRun cut = train_pipelined(4, 4, options, {.pipeline = 2, .schedule = order}, two_names);
      expect_same_bits(cut, plain);
      EXPECT_EQ(cut.given_back.front().sizes().vec(), (std::vector<std::int64_t>{11, 6}));
      EXPECT_TRUE(torch::equal(cut.given_back.front(), cut.given_back.back())) << "table.weight and head.weight";
    }
  }
}

// DeepSpeed divided a gradient by the number of micro-batches once more for each section that it reached. A division by
// four is exact.
TEST(PartsOfLosses, AreDividedOnce) {
  const AttachOptions options{.stage = 1, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(1, 3, options, {.pipeline = 1}, repeated_net);  // divides in its function
  std::vector<Subject> subjects;
  for (int rank = 0; rank < 3; ++rank) {
    torch::manual_seed(7 + rank);
    subjects.push_back(repeated_net());
  }
  tests::on_every_rank(3, [&](World& world) {
    const Subject& subject = subjects[static_cast<std::size_t>(world.rank())];
    PipelineEngine engine = attach_pipeline(*subject.module, world, options, {.pipeline = 3});
    for (int step = 0; step < 3; ++step) {
      const std::vector<double> losses =
          engine.passes([&](int micro) { return subject.loss(step, micro, 0); }, /*parts=*/4);
      ASSERT_EQ(losses.size(), 4U);
      for (std::size_t micro = 0; micro < 4; ++micro)
        EXPECT_EQ(losses[micro], 4 * plain.losses.at(4 * static_cast<std::size_t>(step) + micro));
      EXPECT_EQ(engine.step(1e-2).grad_norm, plain.grad_norms.at(static_cast<std::size_t>(step)));
    }
  });
}

}  // namespace
}  // namespace zero
