#include "zero/train/gpt2_task.h"

#include <utility>

#include <fmt/format.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "zero/base/error.h"
#include "zero/checkpoint/transformers_config.h"
#include "zero/models/gpt2.h"
#include "zero/torch/deferred.h"

namespace zero {
namespace {

class Gpt2Task : public Task {
 public:
  Gpt2Task(Gpt2 model, std::int64_t context, std::unique_ptr<ActivationStore> activations)
      : activations_(std::move(activations)), model_(std::move(model)), context_(context) {}

  using Task::loss;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const auto logits = model_->forward(input);
    return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}).to(at::kFloat), target.view(-1));
  }
  double flops_per_sample() const override {
    return flops_per_token(model_->options(), context_) * static_cast<double>(context_);
  }
  std::int64_t tokens_per_sample() const override { return context_; }
  bool has_tokens() const override { return true; }
  Gpt2* language_model() override { return &model_; }
  ActivationStore* activations() override { return activations_.get(); }
  bool describe_weights(const std::filesystem::path& folder, DType dtype) const override {
    const Gpt2Options& options = model_->options();
    return write_transformers_config(folder, {.layers = options.layers,
                                              .width = options.width,
                                              .heads = options.heads,
                                              .context = options.context,
                                              .vocab = options.vocab,
                                              .dropout = options.dropout,
                                              .dtype = dtype});
  }

 private:
  std::unique_ptr<ActivationStore> activations_;
  Gpt2 model_;
  std::int64_t context_;
};

std::unique_ptr<ActivationStore> make_store(const ModelOptions& model) {
  if (!model.activation_offload) return nullptr;
  if (!model.checkpoint_activations)
    throw ConfigError("train.offload_activations", name_of(model.activation_offload->tier),
                      "what is offloaded are the inputs of checkpoints, and there are none",
                      "set train.checkpoint_activations = true, or leave it none");
  return std::make_unique<ActivationStore>(*model.activation_offload);
}

}  // namespace

std::unique_ptr<Task> make_gpt2_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  if (data.context > model.context) {
    throw ConfigError("data.context", fmt::format("{}", data.context), "longer than the model's",
                      fmt::format("model.context is {}: use less, or a longer model.context", model.context));
  }
  if (model.vocab != 0 && model.vocab < data.classes) {
    throw ConfigError("model.vocab", fmt::format("{}", model.vocab), "smaller than a token of the data",
                      fmt::format("use {} or more, or 0 for the data's", data.classes));
  }
  auto store = make_store(model);
  const Gpt2Options options{.layers = model.layers,
                            .width = model.width,
                            .heads = model.heads,
                            .context = model.context,
                            .vocab = model.vocab == 0 ? data.classes : model.vocab,
                            .dropout = model.dropout,
                            .checkpoint = model.checkpoint_activations,
                            .checkpoint_options = store ? store->checkpoint_options() : CheckpointOptions{},
                            .random_weights = model.init.empty()};
  check(options);
  return std::make_unique<Gpt2Task>(deferred([&] { return Gpt2(options); }, seed), data.context, std::move(store));
}

std::optional<SampleShape> gpt2_shape(const ModelOptions& model, DataKind data, std::int64_t context) {
  if (model.vocab > 0) return SampleShape{.context = context, .classes = model.vocab};
  if (data == DataKind::kText) return SampleShape{.context = context, .classes = 256};
  return std::nullopt;
}

}  // namespace zero
