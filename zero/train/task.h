// Task: a model, and what it is trained to do with a batch. The one place that knows which models there are.
//
//   auto task = make_task({.name = "gpt2", .width = 128, ...}, corpus.shape(), seed);
//   auto loss = task->loss(batch);             // mean over the targets that count
//   task->module()                             // built under zero::deferred: no memory before attach()
//
// A language model and a classifier learn by cross entropy, a regression by the mean squared error. The loss is fp32
// whatever the parameters' type is. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/base/dtype.h"
#include "zero/data/batch.h"
#include "zero/data/dataset.h"
#include "zero/models/gpt2.h"
#include "zero/torch/activation_store.h"

namespace zero {

// The keys of [model]; a model looks at its own.
struct ModelOptions {
  std::string name = "gpt2";  // gpt2 | mlp | linear
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t context = 64;
  std::int64_t vocab = 0;  // 0: the data's
  double dropout = 0;
  bool checkpoint_activations = false;  // of [train]: only a gpt2 has blocks to compute again
  std::optional<ActivationOffloadOptions>
      activation_offload{};  // where their inputs lie until then; absent: where they are made
  std::vector<std::int64_t> sizes;
  std::string init;  // a safetensors file; empty: random
};

// What a forward pass over `batch` samples offloads, where `model` offloads activations: so many tensors of so many bytes, at
// once. Local.
struct OffloadedInput {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype);

class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;
  // Tensors as in zero/data/batch.h; on the meta device where the module is.
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) = 0;
  // The batch is read until backward is over.
  torch::Tensor loss(const Batch& batch);
  // Multiplications and additions of a forward and a backward pass over one sample.
  virtual double flops_per_sample() const = 0;
  // What throughput counts: tokens of a sample, or 1 where a sample is a row.
  virtual std::int64_t tokens_per_sample() const = 0;
  // The model as a language model, or null: what can generate text.
  virtual Gpt2* language_model() { return nullptr; }
  // Where its activations are offloaded, or null: nowhere.
  virtual ActivationStore* activations() { return nullptr; }
};

// Throws ConfigError when the model and the data do not fit: "model.name", "model.vocab", "model.sizes",
// "data.context"; and when activations are offloaded that nobody keeps: "train.offload_activations".
std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// The context of a sample where [data] context is 0.
std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context);

// Memory of the batch, not a copy of it: valid as long as the batch is.
torch::Tensor as_tensor(const Array& array);

}  // namespace zero
