// RowTask: a model from rows of numbers to scores of classes (cross entropy), or to a number (mean squared error).
//
//   std::make_unique<RowTask<Mlp>>(model, {.classifies = true, .flops = flops_per_row(options)});
//
// Local.
#pragma once

#include <utility>

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include "zero/train/task.h"

namespace zero {

struct RowTaskOptions {
  bool classifies = false;
  double flops = 0;  // of a row, forward and backward
};

// `Model`: the holder of a module (TORCH_MODULE) with forward([batch, ...]) -> [batch, outputs].
template <typename Model>
class RowTask : public Task {
 public:
  RowTask(Model model, const RowTaskOptions& options) : model_(std::move(model)), options_(options) {}

  using Task::loss;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const auto output = model_->forward(input).to(at::kFloat);
    return options_.classifies ? at::cross_entropy_loss(output, target) : at::mse_loss(output, target);
  }
  double flops_per_sample() const override { return options_.flops; }

 private:
  Model model_;
  RowTaskOptions options_;
};

}  // namespace zero
