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
  using Task::score;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    return loss_of(scores_of(input), target);
  }
  Score score(const torch::Tensor& input, const torch::Tensor& target) override {
    const auto scores = scores_of(input);
    if (!options_.classifies) return {loss_of(scores, target), {}};
    return {loss_of(scores, target), scores.argmax(1).eq(target).sum()};
  }
  double flops_per_sample() const override { return options_.flops; }

 private:
  torch::Tensor scores_of(const torch::Tensor& input) { return model_->forward(input).to(at::kFloat); }
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& target) const {
    return options_.classifies ? at::cross_entropy_loss(scores, target) : at::mse_loss(scores, target);
  }

  Model model_;
  RowTaskOptions options_;
};

}  // namespace zero
