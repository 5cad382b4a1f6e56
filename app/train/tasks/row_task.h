// RowTask: a model from samples to scores of classes (cross entropy), or to a number (mean squared error).
//
//   std::make_unique<RowTask<Mlp>>(model, {.classifies = true, .flops = flops_per_row(options)});
//
// Local.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mse_loss.h>

#include "zero/checkpoint/safetensors/transformers_config.h"

#include "app/train/tasks/task.h"

namespace zero {

struct RowTaskOptions {
  bool classifies = false;
  double flops = 0;                              // FLOPs of a sample, forward and backward
  double label_smoothing = 0;                    // applied only to the training loss
  std::optional<TransformersModel> published{};  // the model in transformers' terms; absent: unknown to it
};

// `Model`: the holder of a module (TORCH_MODULE) with forward([batch, ...]) -> [batch, outputs].
template <typename Model>
class RowTask : public Task {
 public:
  RowTask(Model model, const RowTaskOptions& options, std::unique_ptr<ActivationStore> activations = nullptr)
      : activations_(std::move(activations)), model_(std::move(model)), options_(options) {}

  using Task::loss;
  using Task::score;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    return loss_of(model_->forward(input), target, options_.label_smoothing);
  }
  Score score(const torch::Tensor& input, const torch::Tensor& target) override {
    const auto scores = model_->forward(input);
    if (!options_.classifies) return {loss_of(scores, target, 0), {}};
    return {loss_of(scores, target, 0), scores.argmax(1).eq(target).sum()};
  }
  torch::Tensor predictions(const torch::Tensor& input) override {
    const auto scores = model_->forward(input);
    return options_.classifies ? scores.argmax(1) : scores.flatten();
  }
  double flops_per_sample() const override { return options_.flops; }
  ActivationStore* activations() override { return activations_.get(); }
  std::optional<TransformersModel> published() const override { return options_.published; }

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& target, double label_smoothing) const {
    if (options_.classifies) return class_loss(scores, target, label_smoothing);
    const torch::Tensor found = scores.to(at::kFloat);
    // On the meta device, libtorch's mean of mse_loss() resizes its result and warns about it.
    return found.is_meta() ? at::mse_loss(found, target, at::Reduction::None).mean() : at::mse_loss(found, target);
  }

  std::unique_ptr<ActivationStore> activations_;
  Model model_;
  RowTaskOptions options_;
};

}  // namespace zero
