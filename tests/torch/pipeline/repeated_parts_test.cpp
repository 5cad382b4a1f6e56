// Activation checkpoints in a pipeline: the bits of a run without a pipeline, and a second run only in their section.
#include <atomic>

#include <gtest/gtest.h>

#include "zero/torch/activations/activation_store.h"
#include "zero/torch/activations/checkpoint.h"

#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;
using Tensors = std::vector<at::Tensor>;

constexpr int kParts = 4;

// Each part is a checkpoint with a checkpoint inside. Its second output, a view of a tensor from inside, is used after
// the last part.
struct RepeatedNet : torch::nn::Module {
  explicit RepeatedNet(std::atomic<int>* counter) : runs(counter) {
    register_module("layers", layers);
    for (int i = 0; i < 2 * kParts; ++i) layers->push_back(torch::nn::Linear(6, 6));
  }
  torch::Tensor layer(int i, const torch::Tensor& x) {
    return layers[static_cast<std::size_t>(i)]->as<torch::nn::LinearImpl>()->forward(x);
  }
  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> later;
    for (int part = 0; part < kParts; ++part) {
      const std::function<Tensors(const Tensors&)> run = [this, part](const Tensors& in) {
        ++*runs;
        const torch::Tensor a = torch::tanh(layer(2 * part, in[0]));
        const std::function<at::Tensor(const Tensors&)> inner = [this, part](const Tensors& nested) {
          return torch::gelu(layer(2 * part + 1, nested[0]));
        };
        return Tensors{checkpoint(inner, {a}) + in[0], a.view({-1})};
      };
      const Tensors outputs = checkpoint(run, {x}, options);
      x = outputs[0];
      later.push_back(outputs[1]);
    }
    for (const torch::Tensor& tensor : later) x = x * (1 + 0.1 * tensor.view_as(x));
    return x;
  }
  torch::nn::ModuleList layers;
  CheckpointOptions options;
  std::atomic<int>* runs;
};

Subject repeated_net(std::atomic<int>& runs, ActivationStore* store = nullptr) {
  auto net = std::make_shared<RepeatedNet>(&runs);
  if (store != nullptr) net->options = store->checkpoint_options();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor x =
                (torch::arange(24) * (step + 2) + micro * 5 + rank).remainder(7).to(torch::kFloat) / 4 - 1;
            return torch::mse_loss(net->forward(x.view({4, 6})), torch::ones({4, 6}));
          }};
}

TEST(RepeatedParts, OrdersKeepBits) {
  std::atomic<int> runs = 0;
  const auto make = [&] { return repeated_net(runs); };
  for (const int stage : {0, 3}) {
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 4};
    const PipelinedRun plain = train_pipelined(2, 4, options, {.pipeline = 1}, make);
    for (const PipelineOptions& pipeline :
         {PipelineOptions{.pipeline = 2}, PipelineOptions{.pipeline = 3, .schedule = PassOrder::kGpipe},
          PipelineOptions{.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved},
          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH1},
          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbV}}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", " + std::string(name_of(pipeline.schedule)));
      expect_same_bits(train_pipelined(2 * pipeline.pipeline, 4, options, pipeline, make), plain);
    }
  }
}

// Learning and each section's pass run all parts. In the backward pass a section runs its own parts again.
TEST(RepeatedParts, RunAgainInTheirSection) {
  std::atomic<int> runs = 0;
  const AttachOptions options{.stage = 0, .accumulate = 2};
  train_pipelined(2, 1, options, {.pipeline = 2}, [&] { return repeated_net(runs); });
  constexpr int kRanks = 2, kMicros = 2;
  EXPECT_EQ(runs, kRanks * kParts + kRanks * kMicros * kParts + kMicros * kParts);
}

TEST(RepeatedParts, OffloadKeepsBits) {
  std::atomic<int> runs = 0;
  std::vector<std::unique_ptr<ActivationStore>> stores;
  const auto offloaded = [&] {
    stores.push_back(std::make_unique<ActivationStore>(ActivationOffloadOptions{.tier = Tier::kHost}));
    return repeated_net(runs, stores.back().get());
  };
  const AttachOptions options{.stage = 0, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(1, 4, options, {.pipeline = 1}, [&] { return repeated_net(runs); });
  expect_same_bits(train_pipelined(2, 4, options, {.pipeline = 2}, offloaded), plain);
  for (const auto& store : stores) EXPECT_GT(store->report().peak.host.total(), 0);
}

// A tied net, whose head gives gradients to the lookup of another section.
TEST(RepeatedParts, TiedHeadsKeepBits) {
  struct Net : tests::TiedNet {
    torch::Tensor forward(const torch::Tensor& tokens) {
      torch::Tensor x = table(tokens);
      for (std::size_t i = 0; i < blocks->size(); ++i) {
        const std::function<at::Tensor(const Tensors&)> run = [this, i](const Tensors& in) {
          return block(i).forward(in[0]);
        };
        x = checkpoint(run, {x});
      }
      return torch::matmul(x * scale, table->weight.t());
    }
  };
  const auto make = [] {
    auto net = std::make_shared<Net>();
    return Subject{net, [net](int step, int micro, int rank) {
                     const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
                     return tests::next_token_loss(net->forward(tokens), tokens);
                   }};
  };
  const AttachOptions options{.stage = 2, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(1, 4, options, {.pipeline = 1}, make);
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH2}) {
    SCOPED_TRACE(name_of(order));
    expect_same_bits(train_pipelined(2, 4, options, {.pipeline = 2, .schedule = order}, make), plain);
  }
}

}  // namespace
}  // namespace zero
