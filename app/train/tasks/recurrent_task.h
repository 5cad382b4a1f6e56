// make_rnn_task(), make_lstm_task(), make_gru_task(): of tokens a language model, of images a classifier that reads row
// by row; the data decides. Rows of model_kind.h.
//
//   auto task = make_lstm_task({.name = "lstm", .layers = 1, .hidden = 256, .context = 64}, corpus.shape(), seed);
//
// Local. Throws ConfigError: what token_model.h throws, "data.channels" for images in colour, and what
// check(RecurrentOptions) throws.
#pragma once

#include <cstdint>
#include <memory>

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

std::unique_ptr<Task> make_rnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_lstm_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_gru_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
