// A multi-layer perceptron: linear layers with ReLU between them. Parameters layers.N.{weight [out, in], bias}.
//
//   Mlp model(MlpOptions{.sizes = {784, 256, 10}});
//   auto scores = model->forward(images);      // [batch, ...] with 784 numbers a row -> [batch, 10]
//
// Local.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

namespace zero {

struct MlpOptions {
  std::vector<std::int64_t> sizes;  // inputs, hidden layers, outputs: two or more
};

// Throws ConfigError under "model.sizes".
void check(const MlpOptions& options);

// Forward and backward, per row: 6 for each weight.
double flops_per_row(const MlpOptions& options);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const MlpOptions& options);
  // Rows are flattened and taken into the parameters' type.
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::ModuleList layers_;
};
TORCH_MODULE(Mlp);

}  // namespace zero
