// make_linear_task(): a linear regression, which predicts one number from a row. Its row is in model_kind.cpp.
//
//   auto task = make_linear_task({.name = "linear"}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

std::unique_ptr<Task> make_linear_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
