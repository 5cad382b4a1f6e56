// A linear regression: one number from rows. A row of model_kind.h.
//
//   auto task = make_linear_task({.name = "linear"}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zero/data/dataset.h"
#include "zero/data/open_data.h"
#include "zero/train/model_options.h"
#include "zero/train/task.h"

namespace zero {

std::unique_ptr<Task> make_linear_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Never: its one size is the data's.
std::optional<SampleShape> linear_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
