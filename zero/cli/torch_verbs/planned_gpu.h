// look_at_gpu(): what a plan is told of the GPU on which its first rank would compute.
//
//   PlannedMachine machine{...};
//   look_at_gpu(request.loaded, /*trains=*/false, machine);     // ranks_on_gpu, and its free memory
//
// Nothing is changed where the model computes on the CPU. Local.
#pragma once

#include "zero/config/config.h"
#include "zero/report/memory_fit.h"

namespace zero::cli {

// Where a GPU is named and none is here, the plan is for a machine that has one: its free memory is then not known. With
// `trains`, of a run that is to come here, that throws ConfigError, as the run would.
void look_at_gpu(const LoadedConfig& loaded, bool trains, PlannedMachine& machine);

}  // namespace zero::cli
