// A gradient penalty is the gradient of a gradient: torch::autograd::grad() with create_graph in the forward pass.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// Teaches a critic to slope by 1 (as in WGAN-GP). Returns the penalty of each step.
std::vector<double> train_with_penalty(zero::World& world) {
  torch::nn::Sequential critic(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  auto engine = zero::attach(*critic, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2}});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> penalties;
  for (int step = 0; step < 30; ++step) {
    const auto x = torch::randn({32, 4}, random).requires_grad_();
    const auto y = critic->forward(x);
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    const auto penalty = (slope.norm(2, /*dim=*/1) - 1).pow(2).mean();
    (y.pow(2).mean() * 0.01 + penalty).backward();
    engine.step();
    penalties.push_back(penalty.item<double>());
  }
  return penalties;
}

}  // namespace examples
