// TokenTask: a language model that learns the next token, by cross entropy over the tokens of a sample.
//
//   std::make_unique<TokenTask<Gpt2>>(model, {.context = 64, .flops_per_token = ...}, make_store(options));
//
// Local.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "zero/checkpoint/safetensors/transformers_config.h"

#include "app/train/tasks/task.h"

namespace zero {

struct TokenTaskOptions {
  std::int64_t context = 0;                      // tokens of a sample
  double flops_per_token = 0;                    // FLOPs of a token, forward and backward
  double label_smoothing = 0;                    // applied only to the training loss
  std::optional<TransformersModel> published{};  // the model in transformers' terms; absent: unknown to it
};

// `Model`: the holder of a module (TORCH_MODULE) that is a LanguageModel with forward([batch, time]) -> [batch, time,
// vocab].
template <typename Model>
class TokenTask : public Task {
 public:
  TokenTask(Model model, const TokenTaskOptions& options, std::unique_ptr<ActivationStore> activations = nullptr)
      : activations_(std::move(activations)), model_(std::move(model)), options_(options) {}

  using Task::loss;
  using Task::score;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    return loss_of(input, target, options_.label_smoothing);
  }
  Score score(const torch::Tensor& input, const torch::Tensor& target) override {
    return {loss_of(input, target, 0), {}};
  }
  std::optional<double> perplexity(double loss) const override { return std::exp(loss); }
  double flops_per_sample() const override { return options_.flops_per_token * static_cast<double>(options_.context); }
  std::int64_t tokens_per_sample() const override { return options_.context; }
  bool has_tokens() const override { return true; }
  LanguageModel* language_model() override { return model_.get(); }
  ActivationStore* activations() override { return activations_.get(); }
  std::optional<TransformersModel> published() const override { return options_.published; }

 private:
  torch::Tensor loss_of(const torch::Tensor& input, const torch::Tensor& target, double label_smoothing) {
    const auto logits = model_->forward(input);
    return class_loss(logits.view({-1, logits.size(-1)}), target.view(-1), label_smoothing);
  }

  std::unique_ptr<ActivationStore> activations_;
  Model model_;
  TokenTaskOptions options_;
};

}  // namespace zero
