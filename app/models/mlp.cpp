#include "app/models/mlp.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include "zero/base/error/error.h"

namespace zero {

void check(const MlpOptions& options) {
  const auto& sizes = options.sizes;
  if (sizes.size() >= 2 && std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; })) return;
  throw ConfigError("model.sizes", fmt::format("[{}]", fmt::join(sizes, ", ")), "not the sizes of a network",
                    "give inputs, hidden layers and outputs, each 1 or more: [784, 256, 10]");
}

double flops_per_row(const MlpOptions& options) {
  double weights = 0;
  for (std::size_t i = 1; i < options.sizes.size(); ++i) {
    weights += static_cast<double>(options.sizes[i - 1]) * static_cast<double>(options.sizes[i]);
  }
  return 6 * weights;
}

MlpImpl::MlpImpl(const MlpOptions& options) : layers_(register_module("layers", torch::nn::ModuleList())) {
  check(options);
  for (std::size_t i = 1; i < options.sizes.size(); ++i) {
    layers_->push_back(torch::nn::Linear(options.sizes[i - 1], options.sizes[i]));
  }
}

torch::Tensor MlpImpl::forward(const torch::Tensor& input) {
  auto x = input.flatten(1).to(layers_[0]->as<torch::nn::Linear>()->weight.scalar_type());
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    if (i > 0) x = at::relu(x);
    x = layers_[i]->as<torch::nn::Linear>()->forward(x);
  }
  return x;
}

}  // namespace zero
