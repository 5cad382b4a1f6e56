// GivenGradients: gradients of a step that other ranks have computed and sent, for an engine that takes them instead of
// running a model: a server's, of its workers.
//
//   engine.served().apply({.present = ..., .number = 2, .dtype = ..., .shards = [&](int unit) { ... }}, lr);
//
// Local; the functions are called within the step alone.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

struct GivenGradients {
  std::vector<bool> present;  // by parameter: which got a gradient from anyone
  int number = 1;             // of gradients that the step's is the mean of, micro-batches included
  std::function<DType(const Unit&)> dtype;
  // Of a trained unit: this rank's shard of each gradient, in the order in which they are summed.
  std::function<std::vector<const std::byte*>(int unit)> shards;
};

}  // namespace zero
