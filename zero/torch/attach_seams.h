// attach() for tests, and for runners such as `zero train`: with what stands between the engine and the machine, or is
// known of it from before. The same for activations.
//
//   Attachment engine = attach(tensors_of(*model), world, options, {.rates = rates, .probes = true});
//   auto store = make_activation_store({.tier = Tier::kDisk, .disk = {folder}}, {.files = &full_disk});
#pragma once

#include <memory>

#include "zero/engine/options/engine_seams.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/torch/activations/activation_store.h"
#include "zero/torch/attach.h"

namespace zero {

// Collective. Throws as the attach() of attach.h.
Attachment attach(ModelTensors model, World& world, AttachOptions options, const EngineSeams& seams);

// Local. A store whose disk is reached through `seam`; what that points to outlives the store. Throws as ActivationStore
// does.
std::unique_ptr<ActivationStore> make_activation_store(ActivationOffloadOptions options, const DiskSeam& seam);

}  // namespace zero
