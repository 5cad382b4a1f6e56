#include "zero/train/model_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/train/gpt2_task.h"
#include "zero/train/image_task.h"
#include "zero/train/linear_task.h"
#include "zero/train/mlp_task.h"

namespace zero {
namespace {

constexpr std::array<std::string_view, 5> kGpt2Keys{"model.layers", "model.width", "model.heads", "model.context",
                                                    "model.vocab"};
constexpr std::array<std::string_view, 1> kMlpKeys{"model.sizes"};
constexpr std::array<std::string_view, 2> kRecurrentKeys{"model.layers", "model.hidden"};

bool is_tokens(const SampleShape& data) {
  return data.context != 0;
}
bool is_rows(const SampleShape& data) {
  return data.context == 0;
}
bool is_rows_with_a_class(const SampleShape& data) {
  return data.context == 0 && data.classes > 0;
}
bool is_rows_with_a_number(const SampleShape& data) {
  return data.context == 0 && data.classes == 0;
}

// Most common first.
constexpr std::array<ModelKind, 7> kModelKinds{{
    {.name = "gpt2",
     .own_keys = kGpt2Keys,
     .reads = is_tokens,
     .reads_what = "tokens",
     .data_remedy = "use [data] kind text or tokens, or model.name mlp",
     .has_blocks = true,
     .planned_shape = gpt2_shape,
     .make = make_gpt2_task},
    {.name = "mlp",
     .own_keys = kMlpKeys,
     .reads = is_rows,
     .reads_what = "rows of numbers",
     .data_remedy = "use [data] kind mnist or csv, or model.name gpt2",
     .planned_shape = mlp_shape,
     .make = make_mlp_task},
    {.name = "cnn",
     .own_keys = {},
     .reads = is_rows_with_a_class,
     .reads_what = "images and their classes",
     .data_remedy = "use [data] kind mnist",
     .planned_shape = image_shape,
     .make = make_cnn_task},
    {.name = "rnn",
     .own_keys = kRecurrentKeys,
     .reads = is_rows_with_a_class,
     .reads_what = "images and their classes",
     .data_remedy = "use [data] kind mnist",
     .planned_shape = image_shape,
     .make = make_rnn_task},
    {.name = "lstm",
     .own_keys = kRecurrentKeys,
     .reads = is_rows_with_a_class,
     .reads_what = "images and their classes",
     .data_remedy = "use [data] kind mnist",
     .planned_shape = image_shape,
     .make = make_lstm_task},
    {.name = "gru",
     .own_keys = kRecurrentKeys,
     .reads = is_rows_with_a_class,
     .reads_what = "images and their classes",
     .data_remedy = "use [data] kind mnist",
     .planned_shape = image_shape,
     .make = make_gru_task},
    {.name = "linear",
     .own_keys = {},
     .reads = is_rows_with_a_number,
     .reads_what = "numbers and a number to predict",
     .data_remedy = "use [data] kind csv",
     .planned_shape = linear_shape,
     .make = make_linear_task},
}};

// "gpt2, mlp or linear"
std::string all_names() {
  std::string names;
  for (const ModelKind& kind : kModelKinds) {
    const char* const before = &kind == &kModelKinds.front() ? "" : &kind == &kModelKinds.back() ? " or " : ", ";
    names += fmt::format("{}{}", before, kind.name);
  }
  return names;
}

}  // namespace

std::span<const ModelKind> model_kinds() {
  return kModelKinds;
}

const ModelKind& model_kind(std::string_view name) {
  const auto found = std::ranges::find(kModelKinds, name, &ModelKind::name);
  if (found == kModelKinds.end()) throw ConfigError("model.name", name, "no such model", "use " + all_names());
  return *found;
}

std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const ModelKind& kind = model_kind(model.name);
  if (!kind.reads(data))
    throw ConfigError("model.name", model.name, fmt::format("this data is not what it reads: {}", kind.reads_what),
                      kind.data_remedy);
  if (model.checkpoint_activations && !kind.has_blocks)
    throw ConfigError("train.checkpoint_activations", "true",
                      fmt::format("model.name = {} has no blocks to compute again", model.name),
                      "leave it false, or use model.name gpt2");
  return kind.make(model, data, seed);
}

std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context) {
  return data_context != 0 ? data_context : model.context;
}

// The input of every block; nothing else that a model of blocks keeps goes through a checkpoint.
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype) {
  if (!model.activation_offload || !model.checkpoint_activations) return {};
  return {.count = model.layers, .bytes = batch * context * model.width * static_cast<std::int64_t>(size_of(dtype))};
}

}  // namespace zero
