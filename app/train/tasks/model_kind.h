// ModelKind: the functions that make a model which `zero train` knows by its name.
//
//   auto task = make_task({.name = "gpt2", .width = 128, ...}, corpus.shape(), seed);
//
// To add a model, add a row to the table in model_kind.cpp, and a row without libtorch to kModelTable (model_table.h).
// The rest of app/train reads these rows and contains no model's name. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "zero/base/numbers/dtype.h"

#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/model_table.h"
#include "app/train/tasks/task.h"

namespace zero {

struct ModelKind {
  std::string_view name;  // name of its row in kModelTable
  bool (*reads)(const SampleShape& data);
  std::string_view reads_what;  // "tokens"
  // Returns the shape of the data, with `context` tokens a sample, if the options determine it. Empty: only the data
  // knows.
  std::optional<SampleShape> (*planned_shape)(const ModelOptions& model, DataKind data, std::int64_t context);
  std::unique_ptr<Task> (*make)(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
};

std::span<const ModelKind> model_kinds();
// Throws ConfigError under "model.name".
const ModelKind& model_kind(std::string_view name);

// Makes the task of a model. The module is built under zero::deferred: it has no memory before attach(). Throws
// ConfigError if the model and the data do not fit: "model.name", "model.vocab", "model.sizes", "data.context",
// "train.label_smoothing". Also throws it if activations are to be offloaded and the model keeps none for backward:
// "train.offload_activations".
std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// True if a run of this model on this kind of data learns to write text.
bool is_language_model(std::string_view name, DataKind data);

// Returns the context of a sample. If `data_context` is 0, the model decides it.
std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context);

// The inputs that a forward pass over `batch` samples offloads if `model` offloads activations: `count` tensors of
// `bytes` each, all at the same time.
struct OffloadedInput {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype);

}  // namespace zero
