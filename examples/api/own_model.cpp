// A model that is no torch::nn::Module: attach() only needs tensors with names.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

struct Polynomial {
  torch::Tensor coefficients = torch::zeros({4}, torch::requires_grad());
  torch::Tensor forward(const torch::Tensor& x) const {
    torch::Tensor y = torch::zeros_like(x);
    for (int i = 3; i >= 0; --i) y = y * x + coefficients[i];
    return y;
  }
};

// Learns 1 + 2 x. Returns the coefficients.
torch::Tensor fit_polynomial(zero::World& world) {
  Polynomial model;
  auto engine = zero::attach(zero::ModelTensors{.parameters = {{.name = "coefficients", .tensor = model.coefficients}}},
                             world, {.stage = 3, .optimizer = zero::Sgd{.lr = 0.2, .momentum = 0.9}});
  const auto x = torch::linspace(-1, 1, 33);
  for (int step = 0; step < 300; ++step) {
    torch::mse_loss(model.forward(x), 1 + 2 * x).backward();
    engine.step();
  }
  engine.detach();  // the tensor is an ordinary one again
  return model.coefficients;
}

}  // namespace examples
