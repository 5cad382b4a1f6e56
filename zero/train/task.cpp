#include "zero/train/task.h"

#include <utility>

#include <fmt/format.h>

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mse_loss.h>

#include "zero/base/error.h"
#include "zero/models/linear_regression.h"
#include "zero/models/mlp.h"
#include "zero/torch/deferred.h"

namespace zero {
namespace {

class LanguageTask : public Task {
 public:
  LanguageTask(Gpt2 model, std::int64_t context, std::unique_ptr<ActivationStore> activations)
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
  Gpt2* language_model() override { return &model_; }
  ActivationStore* activations() override { return activations_.get(); }

 private:
  std::unique_ptr<ActivationStore> activations_;
  Gpt2 model_;
  std::int64_t context_;
};

// A model from rows of numbers to scores of classes, or to a number.
template <typename Model>
class RowTask : public Task {
 public:
  RowTask(Model model, bool classifies, double flops)
      : model_(std::move(model)), classifies_(classifies), flops_(flops) {}

  using Task::loss;
  torch::nn::Module& module() override { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const auto output = model_->forward(input).to(at::kFloat);
    return classifies_ ? at::cross_entropy_loss(output, target) : at::mse_loss(output, target);
  }
  double flops_per_sample() const override { return flops_; }
  std::int64_t tokens_per_sample() const override { return 1; }

 private:
  Model model_;
  bool classifies_;
  double flops_;
};

[[noreturn]] void refuse_data(const ModelOptions& model, std::string_view reads, std::string_view remedy) {
  throw ConfigError("model.name", model.name, fmt::format("this data is not what it reads: {}", reads), remedy);
}

void refuse_checkpoint(const ModelOptions& model) {
  if (!model.checkpoint_activations) return;
  throw ConfigError("train.checkpoint_activations", "true",
                    fmt::format("model.name = {} has no blocks to compute again", model.name),
                    "leave it false, or use model.name gpt2");
}

std::unique_ptr<ActivationStore> make_store(const ModelOptions& model) {
  if (!model.activation_offload) return nullptr;
  if (!model.checkpoint_activations)
    throw ConfigError("train.offload_activations", name_of(model.activation_offload->tier),
                      "what is offloaded are the inputs of checkpoints, and there are none",
                      "set train.checkpoint_activations = true, or leave it none");
  return std::make_unique<ActivationStore>(*model.activation_offload);
}

std::unique_ptr<Task> make_gpt2(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  if (data.context == 0) refuse_data(model, "tokens", "use [data] kind text or tokens, or model.name mlp");
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
  return std::make_unique<LanguageTask>(deferred([&] { return Gpt2(options); }, seed), data.context, std::move(store));
}

std::unique_ptr<Task> make_mlp(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  if (data.context != 0) refuse_data(model, "rows of numbers", "use [data] kind mnist or csv, or model.name gpt2");
  refuse_checkpoint(model);
  const MlpOptions options{.sizes = model.sizes};
  check(options);
  const bool classifies = data.classes > 0;
  const std::int64_t inputs = options.sizes.front(), outputs = options.sizes.back();
  const auto refuse_size = [&](std::int64_t size, std::string reason) {
    throw ConfigError("model.sizes", fmt::format("{}", size), reason,
                      "the first size is the data's, the last its classes");
  };
  if (inputs != data.features) refuse_size(inputs, fmt::format("a row of the data has {} numbers", data.features));
  if (classifies && outputs < data.classes) refuse_size(outputs, fmt::format("the data has {} classes", data.classes));
  if (!classifies && outputs != 1) refuse_size(outputs, "the target is one number");
  return std::make_unique<RowTask<Mlp>>(deferred([&] { return Mlp(options); }, seed), classifies,
                                        flops_per_row(options));
}

std::unique_ptr<Task> make_linear(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  if (data.context != 0 || data.classes != 0)
    refuse_data(model, "numbers and a number to predict", "use [data] kind csv");
  refuse_checkpoint(model);
  return std::make_unique<RowTask<LinearRegression>>(deferred([&] { return LinearRegression(data.features); }, seed),
                                                     false, 6.0 * static_cast<double>(data.features));
}

}  // namespace

std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  if (model.name == "gpt2") return make_gpt2(model, data, seed);
  if (model.name == "mlp") return make_mlp(model, data, seed);
  if (model.name == "linear") return make_linear(model, data, seed);
  throw ConfigError("model.name", model.name, "no such model", "use gpt2, mlp or linear");
}

// The input of every block; nothing else that a gpt2 keeps goes through a checkpoint.
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype) {
  if (!model.activation_offload || !model.checkpoint_activations) return {};
  return {.count = model.layers, .bytes = batch * context * model.width * static_cast<std::int64_t>(size_of(dtype))};
}

std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context) {
  return data_context != 0 ? data_context : model.context;
}

torch::Tensor Task::loss(const Batch& batch) {
  return loss(as_tensor(batch.input), as_tensor(batch.target));
}

torch::Tensor as_tensor(const Array& array) {
  return std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        // from_blob wants a writable pointer; nobody writes into an input.
        return at::from_blob(const_cast<T*>(values.data()), array.shape, c10::CppTypeToScalarType<T>::value);
      },
      array.values);
}

}  // namespace zero
