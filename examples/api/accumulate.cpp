// Four micro-batches a step: set `accumulate`, and call step() after the fourth backward pass.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

std::vector<double> accumulate_gradients(zero::World& world) {
  constexpr int kMicroBatches = 4;
  auto model = torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  auto engine = zero::attach(
      *model, world,
      {.stage = 3, .optimizer = zero::AdamW{.lr = 2e-2}, .accumulate = kMicroBatches, .average_micro_batches = true});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    double mean = 0;
    for (int micro = 0; micro < kMicroBatches; ++micro) {
      const auto x = torch::randn({8, 4}, random);
      const auto loss = torch::mse_loss(model->forward(x), x.sum(1, /*keepdim=*/true));
      loss.backward();
      mean += loss.item<double>() / kMicroBatches;
    }
    engine.step();
    losses.push_back(mean);
  }
  return losses;
}

}  // namespace examples
