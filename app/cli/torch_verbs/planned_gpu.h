// look_at_gpu(): tells a plan about the GPU on which its first rank would compute.
//
//   PlannedMachine machine{...};
//   look_at_gpu(request.loaded, /*trains=*/false, machine);     // ranks_on_gpu, and its free memory
//
// It changes nothing if the model computes on the CPU. Local.
#pragma once

#include "app/config/options/config.h"
#include "app/report/plan/memory_fit.h"

namespace zero::cli {

// If a GPU is named but this machine has none, the plan is for a machine with a GPU, whose free memory is not known.
// With `trains` (a run on this machine), that throws ConfigError, as the run would.
void look_at_gpu(const LoadedConfig& loaded, bool trains, PlannedMachine& machine);

}  // namespace zero::cli
