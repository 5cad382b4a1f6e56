// "cnn": LeNet-5, which sorts images, grey or in colour, into classes. A row of model_kind.h.
//
//   auto task = make_cnn_task({.name = "cnn"}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// `data` are images. Throws ConfigError: what check(CnnOptions) throws.
std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
