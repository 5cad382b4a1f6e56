// GivenGradients, TakeGradient: gradients of a step from other ranks, and for other ranks.
//
//   engine.half_steps().apply({.present = ..., .number = 2, .dtype = ..., .shards = [&](int unit) { ... }}, lr);
//   engine.half_steps().give_away([&](int unit, const std::byte* gradient, DType dtype) { ... }, [] {});
//
// An engine with given gradients runs no passes. Local; the functions are called only within the step.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

struct GivenGradients {
  std::vector<bool> present;  // by parameter: whether any rank computed a gradient
  int number = 1;             // number of gradients in the step's mean, micro-batches included
  std::function<DType(const Unit&)> dtype;
  // Returns this rank's shard of each gradient of a trained unit, in the order of the sum.
  std::function<std::vector<const std::byte*>(int unit)> shards;
};

// Takes a unit's whole gradient, in the type in which it is sent.
using TakeGradient = std::function<void(int unit, const std::byte* gradient, DType dtype)>;

}  // namespace zero
