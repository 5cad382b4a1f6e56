// make_mlp_task(): a perceptron that learns classes, or one number, from rows. Its row is in model_kind.cpp.
//
//   auto task = make_mlp_task({.name = "mlp", .sizes = {784, 256, 10}}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// Throws ConfigError under "model.sizes".
std::unique_ptr<Task> make_mlp_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

std::optional<SampleShape> mlp_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
