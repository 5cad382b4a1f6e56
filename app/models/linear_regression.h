// LinearRegression: y = w x + b with one output.
//
//   LinearRegression model(13);
//   auto y = model->forward(rows);             // [batch, 13] -> [batch, 1]
//
// Parameters: linear.{weight [1, features], bias [1]}. They begin as zeros: the problem is convex, and a start without
// a seed makes runs comparable. Local.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace zero {

class LinearRegressionImpl : public torch::nn::Module {
 public:
  // Throws ConfigError under "model.name" for a table without a column to learn from.
  explicit LinearRegressionImpl(std::int64_t features);
  // Converts rows to the parameters' type.
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Linear linear_;
};
TORCH_MODULE(LinearRegression);

}  // namespace zero
