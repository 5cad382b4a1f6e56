// ModelKind: how a model that `zero train` knows by its name is made. To add a model is to add a row to the table in
// model_kind.cpp, and one of plain facts to kModelTable (model_table.h): the rest of app/train asks the rows, and knows no
// name.
//
//   auto task = make_task({.name = "gpt2", .width = 128, ...}, corpus.shape(), seed);
//
// Local.
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
  std::string_view name;  // of its row in kModelTable
  bool (*reads)(const SampleShape& data);
  std::string_view reads_what;  // "tokens"
  // The shape of the data, `context` tokens a sample, where the options say it; nothing: only the data knows.
  std::optional<SampleShape> (*planned_shape)(const ModelOptions& model, DataKind data, std::int64_t context);
  std::unique_ptr<Task> (*make)(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
};

std::span<const ModelKind> model_kinds();
// Throws ConfigError under "model.name".
const ModelKind& model_kind(std::string_view name);

// The module is built under zero::deferred: it has no memory before attach(). Throws ConfigError when the model and the
// data do not fit: "model.name", "model.vocab", "model.sizes", "data.context", "train.label_smoothing"; and when
// activations are offloaded that nobody keeps: "train.offload_activations".
std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Does a run of this model on this kind of data learn to write text?
bool is_language_model(std::string_view name, DataKind data);

// The context of a sample where [data] context is 0.
std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context);

// What a forward pass over `batch` samples offloads, where `model` offloads activations: `count` tensors of `bytes`
// each, all at once.
struct OffloadedInput {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype);

}  // namespace zero
