// An activation checkpoint around each block: the backward pass computes the block's activations again.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// For the backward pass only the input of each block is kept.
torch::Tensor forward_with_checkpoints(torch::nn::ModuleList& blocks, torch::Tensor x) {
  for (const auto& block : *blocks) {
    const auto run = [block](const std::vector<torch::Tensor>& in) {
      return block->as<torch::nn::Sequential>()->forward(in[0]);
    };
    x = x + zero::checkpoint(run, {x});
  }
  return x;
}

std::vector<double> train_with_checkpoints(zero::World& world) {
  torch::nn::ModuleList blocks;
  for (int i = 0; i < 4; ++i)
    blocks->push_back(torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::GELU(), torch::nn::Linear(32, 8)));
  auto engine = zero::attach(*blocks, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2}});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    const auto input = torch::randn({16, 8}, random);
    const auto loss = torch::mse_loss(forward_with_checkpoints(blocks, input), input.flip(1));
    loss.backward();
    engine.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
