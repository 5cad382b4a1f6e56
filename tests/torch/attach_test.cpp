#include "zero/torch/attach.h"

#include <gtest/gtest.h>

#include "training_run.h"

namespace zero {
namespace {

using testing::RunResult;
using testing::Subject;
using testing::train;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width) : norm(torch::nn::LayerNormOptions({width})), up(width, 2 * width), down(2 * width, width) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

// A language model in small: an embedding whose table is the head too, and three blocks.
struct TiedNet : torch::nn::Module {
  TiedNet() : table(11, 6) {
    register_module("table", table);
    register_module("blocks", blocks);
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(6));
    scale = register_parameter("scale", torch::ones({}));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens);
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
    return torch::matmul(x * scale, table->weight.t());
  }
  torch::nn::Embedding table;
  torch::nn::ModuleList blocks;
  torch::Tensor scale;
};

Subject tied_net() {
  auto net = std::make_shared<TiedNet>();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor tokens = (torch::arange(20) * (step + 3) + micro * 5 + rank * 7).remainder(11).reshape({2, 10});
            return torch::cross_entropy_loss(net->forward(tokens).reshape({-1, 11}), tokens.roll(1, 1).reshape({-1}));
          }};
}

std::vector<AttachOptions> all_stages(AttachOptions options) {
  std::vector<AttachOptions> result;
  for (int stage = 0; stage < 4; ++stage) {
    options.stage = stage;
    result.push_back(options);
  }
  return result;
}

TEST(Attach, StagesAreEqualBitForBitInEveryWorld) {
  for (int world : {1, 2, 3}) {
    AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5};
    std::vector<RunResult> results;
    for (const AttachOptions& stage : all_stages(options)) results.push_back(train(world, 4, stage, tied_net));
    for (int stage = 1; stage < 4; ++stage) {
      EXPECT_EQ(results[0].loss_bits, results[static_cast<std::size_t>(stage)].loss_bits) << "world " << world << " stage " << stage;
      EXPECT_EQ(results[0].grad_norms, results[static_cast<std::size_t>(stage)].grad_norms);
      EXPECT_TRUE(testing::same_bits(results[0].parameters, results[static_cast<std::size_t>(stage)].parameters));
      EXPECT_TRUE(testing::same_bits(results[0].given_back, results[static_cast<std::size_t>(stage)].given_back));
    }
  }
}

TEST(Attach, BudgetsDoNotChangeABit) {
  AttachOptions options{.stage = 3, .optimizer = AdamW{.lr = 1e-2}, .clip = 0.5};
  const RunResult reference = train(2, 4, options, tied_net);
  for (const char* memory : {"min", "16KiB"}) {
    options.device_memory = DeviceMemory::parse(memory);
    const RunResult result = train(2, 4, options, tied_net);
    EXPECT_EQ(reference.loss_bits, result.loss_bits) << memory;
    EXPECT_TRUE(testing::same_bits(reference.parameters, result.parameters)) << memory;
  }
}

TEST(Attach, Bf16StagesAreEqualWithMicroBatchesToo) {
  for (Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .reduce = reduce, .accumulate = 3, .dtype = DType::kBFloat16};
    std::vector<RunResult> results;
    for (const AttachOptions& stage : all_stages(options)) results.push_back(train(2, 3, stage, tied_net));
    for (std::size_t stage = 1; stage < 4; ++stage) {
      EXPECT_EQ(results[0].loss_bits, results[stage].loss_bits) << "stage " << stage;
      EXPECT_TRUE(testing::same_bits(results[0].parameters, results[stage].parameters)) << "stage " << stage;
    }
  }
}

TEST(Attach, SendsWhatTheScheduleSays) {
  for (const AttachOptions& options : all_stages({.optimizer = AdamW{.lr = 1e-2}})) {
    const RunResult result = train(2, 4, options, tied_net);
    EXPECT_GT(result.reports[0].planned_sent_bytes, 0);
    EXPECT_EQ(result.reports[0].sent_bytes_per_step, result.reports[0].planned_sent_bytes) << "stage " << options.stage;
    EXPECT_EQ(result.reports[1].received_bytes_per_step, result.reports[0].planned_sent_bytes) << "stage " << options.stage;
  }
}

}  // namespace
}  // namespace zero
