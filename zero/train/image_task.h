// "cnn": LeNet-5, which sorts square images, grey or in colour, into classes. A row of model_kind.h.
//
//   auto task = make_cnn_task({.name = "cnn"}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>

#include "zero/data/dataset.h"
#include "zero/train/model_options.h"
#include "zero/train/task.h"

namespace zero {

// Throws ConfigError: what side_of() and check(CnnOptions) throw.
std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Pixels on a side. Throws ConfigError under "data.path" for images that are not square.
std::int64_t side_of(const SampleShape& data);

}  // namespace zero
