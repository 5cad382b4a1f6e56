// make_llama_task(): a llama that learns the next token. Its row is in model_kind.cpp.
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

// Throws the ConfigErrors of token_model.h and of check(LlamaOptions).
std::unique_ptr<Task> make_llama_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
