// A gpt2 that learns the next token: cross entropy over the tokens of a sample. A row of model_kind.h.
//
//   auto task = make_gpt2_task({.layers = 4, .width = 128, .heads = 4, .context = 64}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zero/data/dataset.h"
#include "zero/data/open_data.h"
#include "zero/train/model_options.h"
#include "zero/train/task.h"

namespace zero {

// Throws ConfigError: "data.context", "model.vocab", "train.offload_activations", and what check(Gpt2Options) throws.
std::unique_ptr<Task> make_gpt2_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Of bytes, or where the vocabulary is given.
std::optional<SampleShape> gpt2_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
