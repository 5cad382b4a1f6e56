#include "app/train/tasks/token_model.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

void require_context(const ModelOptions& model, const SampleShape& data) {
  if (data.context <= model.context) return;
  throw ConfigError("data.context", fmt::format("{}", data.context), "longer than the model's",
                    fmt::format("model.context is {}: use less, or a longer model.context", model.context));
}

std::int64_t vocab_of(const ModelOptions& model, std::int64_t tokens) {
  if (model.vocab == 0) return tokens;
  if (model.vocab >= tokens) return model.vocab;
  throw ConfigError("model.vocab", fmt::format("{}", model.vocab), "smaller than a token of the data",
                    fmt::format("use {} or more, or 0 for the data's", tokens));
}

std::unique_ptr<ActivationStore> make_store(const ModelOptions& model) {
  if (!model.activation_offload) return nullptr;
  if (!model.checkpoint_activations)
    throw ConfigError("train.offload_activations", name_of(model.activation_offload->tier),
                      "only the inputs of activation checkpoints are offloaded, and there are none",
                      "set train.checkpoint_activations = true, or train.offload_activations = \"none\"");
  return std::make_unique<ActivationStore>(*model.activation_offload);
}

std::optional<SampleShape> token_shape(const ModelOptions& model, DataKind data, std::int64_t context) {
  if (data != DataKind::kText && data != DataKind::kTokens) return std::nullopt;
  if (model.vocab > 0) return SampleShape{.context = context, .classes = model.vocab};
  if (data == DataKind::kText) return SampleShape{.context = context, .classes = 256};
  return std::nullopt;
}

}  // namespace zero
