// require_context(), vocab_of(), make_store(): functions that all models of tokens share.
//
//   require_context(model, data);                             // "data.context"
//   const std::int64_t vocab = vocab_of(model, data.classes);  // "model.vocab"
//   auto store = make_store(model);                           // "train.offload_activations"
//
// Local. Each throws ConfigError under the key in its line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zero/torch/activations/activation_store.h"

#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"

namespace zero {

// Throws if a sample of the data is longer than the context of the model.
void require_context(const ModelOptions& model, const SampleShape& data);

// Returns model.vocab, or if it is 0 `tokens`, the number of tokens in the data. The result is never smaller than
// `tokens`.
std::int64_t vocab_of(const ModelOptions& model, std::int64_t tokens);

// Makes the store of offloaded activations. Null: activations stay on the device.
std::unique_ptr<ActivationStore> make_store(const ModelOptions& model);

// Returns the shape of data that are bytes, or tokens if the vocabulary is given; empty for other kinds of data.
std::optional<SampleShape> token_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
