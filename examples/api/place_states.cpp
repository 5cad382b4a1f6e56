// Places of states: parameters on the device, gradients on the host, moments on disk.
#include <string>

#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// `folder`: on a disk. Returns the report of the last step; its state_bytes are those of this rank's states, by tier.
zero::EngineReport train_with_moments_on_disk(zero::World& world, const std::string& folder) {
  torch::nn::Sequential model(torch::nn::Linear(4, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  const zero::StateFractions fractions{.gradient = {.host = 1}, .optimizer = {.disk = 1}};
  auto engine = zero::attach(
      *model, world,
      {.stage = 3, .optimizer = zero::AdamW{.lr = 2e-2}, .offload = {.fractions = fractions, .disk = {folder}}});

  for (int step = 0; step < 3; ++step) {
    const auto x = torch::ones({16, 4}) * (step + world.rank());
    torch::mse_loss(model->forward(x), x.sum(1, /*keepdim=*/true)).backward();
    engine.step();
  }
  return engine.report();
}

}  // namespace examples
