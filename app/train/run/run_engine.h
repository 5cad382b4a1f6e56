// attach_engine(): the engine of a run, with what this machine manages, and the lines that say where states will lie.
//
//   attach_engine(run, {.awaits_load = opening.resumes(), .init = &weights}, checkpoint_bytes(module, job.attach));
//   run.engine->step(lr);
//
// Collective. What a rank knows of this machine from before is given to the engine, and what the engine probes is kept
// (rate_cache.h). Whether saves can keep up is said before there is an engine; a disk without room for a checkpoint is
// refused after it: the engine may take its own from the same disk. Throws what attach() does, and ConfigError under
// "checkpoint.every".
#pragma once

#include <cstdint>

#include "app/train/run/run.h"
#include "app/train/weights/weights.h"

namespace zero {

struct FirstValues {
  bool awaits_load = false;              // a checkpoint brings them
  const InitialWeights* init = nullptr;  // of a file; null: the module's
};

// `checkpoint_bytes`: of a checkpoint of all ranks (module_plan.h).
void attach_engine(Run& run, const FirstValues& values, std::int64_t checkpoint_bytes);

}  // namespace zero
