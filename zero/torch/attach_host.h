// attach(): the overload with EngineHost, for tests and for runners such as `zero train`.
//
//   Engine engine = attach(tensors_of(*model), world, options, {.rates = rates, .probes = true});
//
// EngineHost gives the engine measurements of an earlier run. Its `seams` replace parts of the machine in tests.
#pragma once

#include "zero/engine/options/engine_host.h"
#include "zero/torch/attach.h"

namespace zero {

// Collective. Throws what the attach() of attach.h throws.
Engine attach(ModelTensors model, World& world, AttachOptions options, const EngineHost& host);

}  // namespace zero
