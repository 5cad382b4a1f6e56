// Task: a model, and what it is trained to do with a batch.
//
//   auto task = make_task({.name = "gpt2", .width = 128, ...}, corpus.shape(), seed);     // model_kind.h
//   auto loss = task->loss(batch);             // mean over the targets that count
//   task->module()                             // built under zero::deferred: no memory before attach()
//
// The loss is fp32 whatever the parameters' type is. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "zero/base/numbers/dtype.h"
#include "zero/checkpoint/safetensors/transformers_config.h"
#include "zero/torch/activations/activation_store.h"

#include "app/data/sample/batch.h"
#include "app/models/language_model.h"

namespace zero {

class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;
  // Where the module computes, and batches are brought: the CPU unless this says another device.
  void compute_on(c10::Device place) { place_ = place; }
  // Tensors as in app/data/sample/batch.h; on the meta device where the module is.
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) = 0;
  // On the CPU the batch is read until backward is over.
  torch::Tensor loss(const Batch& batch);
  // The loss without label smoothing, and of a task that sorts samples into classes the number of targets that were found; else undefined.
  struct Score {
    torch::Tensor loss;
    torch::Tensor num_correct;
  };
  virtual Score score(const torch::Tensor& input, const torch::Tensor& target) { return {loss(input, target), {}}; }
  Score score(const Batch& batch);
  // Of each sample its class, or its number; undefined: a task that predicts neither. What a sample and its target look like,
  // the data says: Dataset::show(), name_of().
  virtual torch::Tensor predictions(const torch::Tensor& /*input*/) { return {}; }
  // The perplexity that a mean loss over held-out data means; empty: the task has none.
  virtual std::optional<double> perplexity(double /*loss*/) const { return std::nullopt; }
  // Multiplications and additions of a forward and a backward pass over one sample.
  virtual double flops_per_sample() const = 0;
  // What throughput counts: tokens of a sample, or 1 where a sample is a row.
  virtual std::int64_t tokens_per_sample() const { return 1; }
  // Are those tokens, not rows?
  virtual bool has_tokens() const { return false; }
  // The model as a language model, or null: what can generate text.
  virtual LanguageModel* language_model() { return nullptr; }
  // Where its activations are offloaded, or null: nowhere.
  virtual ActivationStore* activations() { return nullptr; }
  // The model as transformers knows it; nothing: it does not.
  virtual std::optional<TransformersModel> published() const { return std::nullopt; }
  // Writes what other programs need beside weights of type `dtype` in `folder`: config.json for transformers, with the
  // names of the data's classes, on the `base` of the config.json of first weights (transformers_config.h).
  // False where a file that is no model's is in the way. Throws IoError.
  bool describe_weights(const std::filesystem::path& folder, DType dtype, std::vector<std::string> class_names = {},
                        std::string_view base = "") const {
    std::optional<TransformersModel> model = published();
    if (model) model->class_names = std::move(class_names);
    return write_transformers_config(folder, model, dtype, base);
  }

 private:
  c10::Device place_ = c10::Device(c10::DeviceType::CPU);
};

// Memory of the batch, not a copy of it: valid as long as the batch is.
torch::Tensor as_tensor(const Array& array);

}  // namespace zero
