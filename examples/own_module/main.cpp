// A user's own module, trained with ZeRO. Net needs no change.
//
//   zero launch --nproc-per-node 2 -- ./own_module
#include <exception>
#include <iostream>

#include <zero/zero.h>

#include <torch/torch.h>

// Reads a wave, and predicts the next value at each point.
struct Net : torch::nn::Module {
  torch::nn::GRU gru{torch::nn::GRUOptions(1, 32).batch_first(true)};
  torch::nn::Linear head{32, 1};

  Net() {
    register_module("gru", gru);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& wave) { return head(std::get<0>(gru(wave))); }
};

torch::Tensor random_waves() {
  const auto phase = torch::rand({16, 1, 1}) * 6.28;
  return torch::sin(torch::arange(33).reshape({1, 33, 1}) * 0.3 + phase);
}

int main() try {
  auto world = zero::World::from_environment();
  torch::manual_seed(world.rank());  // data differs between ranks; attach() gives all ranks the parameters of rank 0
  auto model = std::make_shared<Net>();
  auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2}, .clip = 1.0});

  double first_loss = 0, last_loss = 0;
  for (int step = 0; step < 60; ++step) {
    const auto wave = random_waves();
    auto loss = torch::mse_loss(model->forward(wave.narrow(1, 0, 32)), wave.narrow(1, 1, 32));
    loss.backward();
    engine.step();
    last_loss = loss.item<double>();
    if (step == 0) first_loss = last_loss;
  }

  if (world.rank() == 0)
    std::cout << "loss " << first_loss << " -> " << last_loss << " on " << world.size() << " rank(s)\n";
  return last_loss < 0.1 * first_loss ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
