// Mlp: a multi-layer perceptron: linear layers with ReLU between them.
//
//   Mlp model(MlpOptions{.sizes = {784, 256, 10}});
//   auto scores = model->forward(images);      // [batch, ...] with 784 numbers a row -> [batch, 10]
//
// Parameters: layers.N.{weight [out, in], bias}. Local.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

namespace zero {

struct MlpOptions {
  std::vector<std::int64_t> sizes;  // inputs, hidden layers, outputs: two sizes or more
};

// Throws ConfigError under "model.sizes".
void check(const MlpOptions& options);

// Returns the operations of a forward and a backward pass, per row: 6 for each weight.
double flops_per_row(const MlpOptions& options);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const MlpOptions& options);
  // Flattens rows, and converts them to the parameters' type.
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::ModuleList layers_;
};
TORCH_MODULE(Mlp);

}  // namespace zero
