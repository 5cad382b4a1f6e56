// Fine-tuning: parameters that need no gradient before attach() are frozen. They are sharded like all others, and have
// no gradients and no optimizer states.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// Returns how far the frozen layer has moved, and how far the head has.
std::pair<double, double> fine_tune_head(zero::World& world) {
  torch::nn::Linear body(8, 8), head(8, 1);
  torch::nn::Sequential model(body, torch::nn::ReLU(), head);
  for (torch::Tensor& parameter : body->parameters()) parameter.set_requires_grad(false);
  auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::Sgd{.lr = 0.1}});
  const torch::Tensor body_before = engine.full_state("0.weight"), head_before = engine.full_state("2.weight");

  for (int step = 0; step < 3; ++step) {
    torch::mse_loss(model->forward(torch::ones({4, 8})), torch::ones({4, 1}) * 5).backward();
    engine.step();
  }
  return {(engine.full_state("0.weight") - body_before).abs().max().item<double>(),
          (engine.full_state("2.weight") - head_before).abs().max().item<double>()};
}

}  // namespace examples
