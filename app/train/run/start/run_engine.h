// attach_engine(): attaches the engine of a run, with this machine's rates, and prints where states will be.
//
//   attach_engine(run, {.awaits_load = opening.resumes(), .init = &weights}, checkpoint_bytes(module, job.attach));
//   run.model.engine->step(lr);
//
// Collective. The engine gets the rates of this machine that are known from earlier runs, and the rates that it probes
// are kept (rate_cache.h). Before the engine is attached, a note says whether saves can keep up. After that, a disk
// without room for a checkpoint is refused, because the engine may take space on the same disk. Throws as attach()
// does, and ConfigError under "checkpoint.every".
#pragma once

#include <cstdint>

#include "app/train/run/parts/run.h"
#include "app/train/weights/weights.h"

namespace zero {

struct FirstValues {
  bool awaits_load = false;              // they are loaded from a checkpoint
  const InitialWeights* init = nullptr;  // weights of a file; null: the module's own values
};

// `checkpoint_bytes`: bytes of a checkpoint of all ranks (module_plan.h).
void attach_engine(Run& run, const FirstValues& values, std::int64_t checkpoint_bytes);

// Collective. Rank 0 prints what limits the run, if states are not all on the device.
void report_states(Run& run);

}  // namespace zero
