// A user's own update rule, with the arithmetic of Lion (Chen et al., arXiv:2302.06675). It works on flat spans, so it
// works with all numbers of ranks, stages, units and tiers.
#include <cmath>

#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

class SignOfAverage final : public zero::UpdateRule {
 public:
  std::string_view name() const override { return "sign_of_average"; }
  std::vector<zero::StateSpec> states() const override { return {{"exp_avg"}}; }

  void update(const zero::UpdateSpan& span, const zero::UpdateScalars& scalars) const override {
    const auto lr = static_cast<float>(scalars.lr);
    const auto decay = static_cast<float>(1 - scalars.lr * scalars.weight_decay);
    const auto scale = static_cast<float>(scalars.gradient_scale);
    for (std::int64_t i = 0; i < span.numel; ++i) {
      const float gradient = span.gradient_at(i) * scale;
      float& moment = span.states[0][i];
      const float direction = 0.9f * moment + 0.1f * gradient;
      const auto sign = static_cast<float>((direction > 0) - (direction < 0));
      span.parameter[i] = span.parameter[i] * decay - lr * sign;
      moment = 0.99f * moment + 0.01f * gradient;
    }
    span.write_low_precision();
  }
};

std::vector<double> train_with_own_rule(zero::World& world) {
  torch::nn::Sequential model(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  auto engine = zero::attach(
      *model, world,
      {.stage = 3,
       .optimizer = zero::OwnRule{.rule = std::make_shared<SignOfAverage>(), .lr = 1e-2, .weight_decay = 0.1}});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    const auto x = torch::randn({16, 4}, random);
    const auto loss = torch::mse_loss(model->forward(x), x.sum(1, /*keepdim=*/true));
    loss.backward();
    engine.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
