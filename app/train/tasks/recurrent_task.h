// make_rnn_task(), make_lstm_task(), make_gru_task(): recurrent models. Their rows are in model_kind.cpp.
//
//   auto task = make_lstm_task({.name = "lstm", .layers = 1, .hidden = 256, .context = 64}, corpus.shape(), seed);
//
// If the data are tokens, the model is a language model. If they are images, it is a classifier that reads row by row.
//
// Local. Throws the ConfigErrors of token_model.h and of check(RecurrentOptions), and "data.channels" for images in
// colour.
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
