// make_gpt2_task(): a gpt2 that learns the next token. Its row is in model_kind.cpp.
//
//   auto task = make_gpt2_task({.layers = 4, .width = 128, .heads = 4, .context = 64}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// Throws the ConfigErrors of token_model.h and of check(Gpt2Options).
std::unique_ptr<Task> make_gpt2_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
