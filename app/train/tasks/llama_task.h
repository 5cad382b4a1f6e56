// make_llama_task(): a llama that learns the next token. A row of model_kind.h.
//
//   auto task = make_llama_task({.layers = 4, .width = 128, .heads = 4, .context = 64}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// Throws ConfigError: what token_model.h throws, and check(LlamaOptions).
std::unique_ptr<Task> make_llama_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
