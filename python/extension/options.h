// options_from(): the keyword arguments of zerocpp.attach(), as AttachOptions.
//
//   options_from({"stage": 3, "device_memory": "64MiB", "optimizer": ("adamw", {"lr": 3e-4})})
//
// The names are those of AttachOptions and OffloadOptions, so the C++ documentation holds for both. Sizes are texts
// ("64MiB") or bytes. Local; call it with the GIL.
#pragma once

#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "zero/plan/pipeline/pipeline.h"
#include "zero/torch/attach.h"

namespace zero::python {

// Throws ConfigError for an unknown name, and for a value of another type.
AttachOptions options_from(const pybind11::dict& given);

// The keyword arguments of attach_pipeline() that attach() has not: pipeline, sections, schedule, depth,
// cut, activation_memory.
PipelineOptions pipeline_options_from(const pybind11::dict& given);

// Returns the leaf of each micro-batch of a rank, with the options `leaves` and `reduce`; -1: the rank is idle. Empty
// without leaves.
std::vector<int> leaves_of_rank(const pybind11::dict& given, int ranks, int rank);

// Returns all names that options_from() accepts, in alphabetical order.
std::vector<std::string> option_names();

}  // namespace zero::python
