// make_gpt2_task(), make_mlp_task(), ...: the task of each model. The models' rows are in model_kind.cpp.
//
//   auto task = make_gpt2_task({.layers = 4, .width = 128, .heads = 4, .context = 64}, corpus.shape(), seed);
//   auto task = make_mlp_task({.name = "mlp", .sizes = {784, 256, 10}}, corpus.shape(), seed);
//
// Each function is in a file of its own (gpt2_task.cpp), and throws the ConfigErrors of check() of its model's options.
// Tasks of models of tokens also throw those of token_model.h. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// Language models, which learn the next token.
std::unique_ptr<Task> make_gpt2_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_llama_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// A classifier of texts.
std::unique_ptr<Task> make_bert_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
// Returns the shape of word_order, which has two classes, if the vocabulary is given. Otherwise only the data knows the
// shape.
std::optional<SampleShape> bert_shape(const ModelOptions& model, DataKind data, std::int64_t context);

// Recurrent models. If the data are tokens, the model is a language model. If they are images, it is a classifier that
// reads row by row. Throw ConfigError under "data.channels" for images in colour.
std::unique_ptr<Task> make_rnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_lstm_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_gru_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// "cnn", LeNet-5: a classifier of images, grey or in colour. `data` must be images.
std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// A perceptron that learns classes, or one number, from rows. Throws ConfigError under "model.sizes".
std::unique_ptr<Task> make_mlp_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::optional<SampleShape> mlp_shape(const ModelOptions& model, DataKind data, std::int64_t context);

// A linear regression, which predicts one number from a row.
std::unique_ptr<Task> make_linear_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
