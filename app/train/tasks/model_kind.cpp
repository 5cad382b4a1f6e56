#include "app/train/tasks/model_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/name_lists.h"

#include "app/train/tasks/tasks.h"
#include "app/train/tasks/token_model.h"

namespace zero {
namespace {

bool is_tokens(const SampleShape& data) {
  return data.context != 0 && data.vocab == 0;
}
bool is_texts_with_a_class(const SampleShape& data) {
  return data.context != 0 && data.vocab != 0;
}
bool is_rows(const SampleShape& data) {
  return data.context == 0;
}
bool is_images(const SampleShape& data) {
  return data.context == 0 && data.classes > 0 && data.height > 0;
}
bool is_images_or_tokens(const SampleShape& data) {
  return is_images(data) || is_tokens(data);
}
bool is_rows_with_a_number(const SampleShape& data) {
  return data.context == 0 && data.classes == 0;
}

std::optional<SampleShape> unplanned_shape(const ModelOptions& /*model*/, DataKind /*data*/, std::int64_t /*context*/) {
  return std::nullopt;
}

constexpr ModelKind recurrent_kind(std::string_view name, decltype(ModelKind::make) make) {
  return {.name = name,
          .reads = is_images_or_tokens,
          .reads_what = "images and their classes, or tokens",
          .planned_shape = token_shape,
          .make = make};
}

// The most common models come first.
constexpr std::array<ModelKind, 9> kModelKinds{{
    {.name = "gpt2", .reads = is_tokens, .reads_what = "tokens", .planned_shape = token_shape, .make = make_gpt2_task},
    {.name = "llama",
     .reads = is_tokens,
     .reads_what = "tokens",
     .planned_shape = token_shape,
     .make = make_llama_task},
    {.name = "bert",
     .reads = is_texts_with_a_class,
     .reads_what = "texts and their classes",
     .planned_shape = bert_shape,
     .make = make_bert_task},
    {.name = "mlp",
     .reads = is_rows,
     .reads_what = "rows of numbers",
     .planned_shape = mlp_shape,
     .make = make_mlp_task},
    {.name = "cnn",
     .reads = is_images,
     .reads_what = "images and their classes",
     .planned_shape = unplanned_shape,
     .make = make_cnn_task},
    recurrent_kind("rnn", make_rnn_task),
    recurrent_kind("lstm", make_lstm_task),
    recurrent_kind("gru", make_gru_task),
    {.name = "linear",
     .reads = is_rows_with_a_number,
     .reads_what = "numbers and a number to predict",
     .planned_shape = unplanned_shape,
     .make = make_linear_task},
}};

// Returns the remedy for a model that does not read the data.
std::string data_remedy(const ModelKind& kind, const SampleShape& data) {
  const std::string others = names_where(kModelKinds, [&](const ModelKind& other) { return other.reads(data); });
  return fmt::format("use [data] kind {}{}{}", one_of(model_row(kind.name).kinds),
                     others.empty() ? "" : ", or model.name ", others);
}

}  // namespace

std::span<const ModelKind> model_kinds() {
  return kModelKinds;
}

const ModelKind& model_kind(std::string_view name) {
  const auto found = std::ranges::find(kModelKinds, name, &ModelKind::name);
  if (found == kModelKinds.end())
    throw ConfigError("model.name", name, "no such model",
                      "use " + names_where(kModelTable, [](const ModelRow&) { return true; }));
  return *found;
}

std::unique_ptr<Task> make_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const ModelKind& kind = model_kind(model.name);
  if (!kind.reads(data))
    throw ConfigError("model.name", model.name, fmt::format("it cannot read this data: {}", kind.reads_what),
                      data_remedy(kind, data));
  if (model.checkpoint_activations && !model_row(kind.name).has_blocks)
    throw ConfigError("train.checkpoint_activations", "true",
                      fmt::format("model.name = {} has no blocks to recompute", model.name),
                      "set it to false, or use model.name " + names_where(kModelTable, &ModelRow::has_blocks));
  if (model.label_smoothing > 0 && data.classes == 0)
    throw ConfigError("train.label_smoothing", fmt::format("{}", model.label_smoothing),
                      "the targets of this data are numbers, not classes", "leave it 0");
  return kind.make(model, data, seed);
}

bool is_language_model(std::string_view name, DataKind data) {
  const bool tokens = data == DataKind::kText || data == DataKind::kTokens;
  return tokens && model_kind(name).reads({.context = 1, .classes = 1});
}

std::int64_t sample_context(const ModelOptions& model, std::int64_t data_context) {
  return data_context != 0 ? data_context : model.context;
}

// Counts the input of every block: a model of blocks offloads nothing else.
OffloadedInput offloaded_inputs(const ModelOptions& model, std::int64_t batch, std::int64_t context, DType dtype) {
  if (!model.activation_offload || !model.checkpoint_activations) return {};
  return {.count = model.layers, .bytes = batch * context * model.width * static_cast<std::int64_t>(size_of(dtype))};
}

}  // namespace zero
