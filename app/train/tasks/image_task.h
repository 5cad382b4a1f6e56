// make_cnn_task(): "cnn", LeNet-5, which classifies images, grey or in colour. Its row is in model_kind.cpp.
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

// `data` must be images. Throws the ConfigErrors of check(CnnOptions).
std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

}  // namespace zero
