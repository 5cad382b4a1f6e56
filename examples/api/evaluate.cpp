// Evaluation between steps: eval(), and no gradients. It does not become a part of a step.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// At stage 3 all ranks must run the same operators, so give each rank the same number of batches.
double evaluate(torch::nn::Sequential& model, const std::vector<std::pair<torch::Tensor, torch::Tensor>>& batches) {
  const torch::NoGradGuard no_gradients;
  model->eval();
  double sum = 0;
  for (const auto& [x, y] : batches) sum += torch::mse_loss(model->forward(x), y).item<double>();
  model->train();
  return sum / static_cast<double>(batches.size());
}

}  // namespace examples
