#include "app/models/linear_regression.h"

#include <fmt/format.h>

#include <torch/nn/init.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::int64_t checked(std::int64_t features) {
  if (features >= 1) return features;
  throw ConfigError("model.name", "linear", fmt::format("the data has {} features: nothing to learn from", features),
                    "a row is one number or more, and then the target");
}

}  // namespace

LinearRegressionImpl::LinearRegressionImpl(std::int64_t features)
    : linear_(register_module("linear", torch::nn::Linear(checked(features), 1))) {
  torch::nn::init::zeros_(linear_->weight);
  torch::nn::init::zeros_(linear_->bias);
}

torch::Tensor LinearRegressionImpl::forward(const torch::Tensor& x) {
  return linear_->forward(x.to(linear_->weight.scalar_type()));
}

}  // namespace zero
