// attach() for tests, and for runners such as `zero train`: with what stands between the engine and the machine, or is
// known of it from before.
//
//   Attachment engine = attach(tensors_of(*model), world, options, {.rates = rates, .probes = true});
#pragma once

#include "zero/engine/options/engine_seams.h"
#include "zero/torch/attach.h"

namespace zero {

// Collective. Throws as the attach() of attach.h.
Attachment attach(ModelTensors model, World& world, AttachOptions options, const EngineSeams& seams);

}  // namespace zero
