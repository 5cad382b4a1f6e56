// attach(): the overload with EngineSeams, for tests and for runners such as `zero train`.
//
//   Attachment engine = attach(tensors_of(*model), world, options, {.rates = rates, .probes = true});
//
// The seams replace parts of the machine under the engine, or give the engine measurements of an earlier run.
#pragma once

#include "zero/engine/options/engine_seams.h"
#include "zero/torch/attach.h"

namespace zero {

// Collective. Throws what the attach() of attach.h throws.
Attachment attach(ModelTensors model, World& world, AttachOptions options, const EngineSeams& seams);

}  // namespace zero
