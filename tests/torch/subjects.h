// The model of most tests in this folder: a small language model with three blocks, whose head is tied to its
// embedding.
#pragma once

#include "tests/torch/training_run.h"

namespace zero::tests {

struct TiedBlockImpl : torch::nn::Module {
  explicit TiedBlockImpl(int width)
      : norm(torch::nn::LayerNormOptions({width})), up(width, 2 * width), down(2 * width, width) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(TiedBlock);

struct TiedNet : torch::nn::Module {
  TiedNet() : table(11, 6) {
    register_module("table", table);
    register_module("blocks", blocks);
    for (int i = 0; i < 3; ++i) blocks->push_back(TiedBlock(6));
    scale = register_parameter("scale", torch::ones({}));
  }
  TiedBlockImpl& block(std::size_t i) { return *blocks[i]->as<TiedBlockImpl>(); }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens);
    for (std::size_t i = 0; i < blocks->size(); ++i) x = block(i).forward(x);
    return torch::matmul(x * scale, table->weight.t());
  }
  torch::nn::Embedding table;
  torch::nn::ModuleList blocks;
  torch::Tensor scale;
};

// Two sequences of ten tokens, different in every micro-batch.
inline torch::Tensor tokens_of(int step, int micro, int rank) {
  return (torch::arange(20) * (step + 3) + micro * 5 + rank * 7).remainder(11).reshape({2, 10});
}

inline torch::Tensor next_token_loss(const torch::Tensor& logits, const torch::Tensor& tokens) {
  return torch::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), tokens.roll(1, 1).reshape({-1}));
}

inline torch::Tensor loss_of(TiedNet& net, int step, int micro, int rank) {
  const torch::Tensor tokens = tokens_of(step, micro, rank);
  return next_token_loss(net.forward(tokens), tokens);
}

inline Subject tied_net() {
  auto net = std::make_shared<TiedNet>();
  return {net, [net](int step, int micro, int rank) { return loss_of(*net, step, micro, rank); }};
}

// One net for each rank, with different weights. After attach() all have those of rank 0.
inline std::vector<std::shared_ptr<TiedNet>> tied_nets(int world) {
  std::vector<std::shared_ptr<TiedNet>> nets;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);
    nets.push_back(std::make_shared<TiedNet>());
  }
  return nets;
}

}  // namespace zero::tests
