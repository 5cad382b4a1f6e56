// Task: a model, and the loss with which it is trained on a batch.
//
//   auto task = make_task({.name = "gpt2", .width = 128, ...}, corpus.shape(), seed);     // model_kind.h
//   auto loss = task->loss(batch);             // mean over the targets that count
//   task->module()                             // built under zero::deferred: no memory before attach()
//
// The loss is fp32 for parameters of every type. Local.
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
  // Sets the device on which the module computes and to which batches are copied. Default: the CPU.
  void compute_on(c10::Device place) { place_ = place; }
  // Returns the loss. The tensors are those of app/data/sample/batch.h; they are on the meta device if the module is.
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) = 0;
  // On the CPU the batch is read until backward is over.
  torch::Tensor loss(const Batch& batch);
  // The loss without label smoothing, and for a task of classes the number of correct predictions; otherwise
  // num_correct is undefined.
  struct Score {
    torch::Tensor loss;
    torch::Tensor num_correct;
  };
  virtual Score score(const torch::Tensor& input, const torch::Tensor& target) { return {loss(input, target), {}}; }
  Score score(const Batch& batch);
  // Returns the class or the number of each sample; undefined if the task predicts neither. Dataset::show() and
  // name_of() display a sample and its target.
  virtual torch::Tensor predictions(const torch::Tensor& /*input*/) { return {}; }
  // Returns the perplexity for a mean loss over held-out data; empty if the task has none.
  virtual std::optional<double> perplexity(double /*loss*/) const { return std::nullopt; }
  // Returns the multiplications and additions of a forward and a backward pass over one sample.
  virtual double flops_per_sample() const = 0;
  // Returns the unit of throughput: the tokens of a sample, or 1 if a sample is a row.
  virtual std::int64_t tokens_per_sample() const { return 1; }
  // True if tokens_per_sample() counts tokens, not rows.
  virtual bool has_tokens() const { return false; }
  // Returns the model as a language model, which can generate text; null if it is not one.
  virtual LanguageModel* language_model() { return nullptr; }
  // Returns the store of its offloaded activations; null: none are offloaded.
  virtual ActivationStore* activations() { return nullptr; }
  // Returns the model in transformers' terms; empty: transformers does not have it.
  virtual std::optional<TransformersModel> published() const { return std::nullopt; }
  // Writes into `folder` the file that other programs need beside weights of type `dtype`: config.json for
  // transformers, with the names of the data's classes. `base`: the config.json of the first weights, which is extended
  // (transformers_config.h). Returns false if a file that does not belong to a model is in the way. Throws IoError.
  bool describe_weights(const std::filesystem::path& folder, DType dtype, std::vector<std::string> class_names = {},
                        std::string_view base = "") const {
    std::optional<TransformersModel> model = published();
    if (model) model->class_names = std::move(class_names);
    return write_transformers_config(folder, model, dtype, base);
  }

 private:
  c10::Device place_ = c10::Device(c10::DeviceType::CPU);
};

// Returns a tensor over the batch's memory, not a copy. It is valid while the batch is valid.
torch::Tensor as_tensor(const Array& array);

// Returns the cross entropy of scores [samples, classes] and classes [samples], in fp32: the mean over the targets that
// count. `label_smoothing` in [0, 1) is the part of each target that is distributed evenly over all classes.
torch::Tensor class_loss(const torch::Tensor& scores, const torch::Tensor& target, double label_smoothing);

}  // namespace zero
