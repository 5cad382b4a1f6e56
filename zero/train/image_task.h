// Models that sort square images of one channel into classes: "cnn" (LeNet-5), and "rnn", "lstm" and "gru", which read an
// image row by row. Rows of model_kind.h.
//
// Local. Throws ConfigError under "data.path" for images that are not square, and what the models' check() throws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zero/data/dataset.h"
#include "zero/data/open_data.h"
#include "zero/train/model_options.h"
#include "zero/train/task.h"

namespace zero {

std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_rnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_lstm_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);
std::unique_ptr<Task> make_gru_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Only the data knows.
std::optional<SampleShape> image_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
