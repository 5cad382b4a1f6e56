// attach_run_pipeline(): cuts a run's model into sections, and attaches those of this rank.
//
//   attach_run_pipeline(run, {.awaits_load = opening.resumes(), .init = &weights}, checkpoint_bytes);
//   run.model.pipeline->text()          // sections, crossings, order of passes
//
// The model is cut by the operators of this rank's first micro-batch. Collective. Throws what
// PipelineEngine::prepare() throws, and ConfigError under "checkpoint.every" if the disk has no room.
#pragma once

#include <cstdint>

#include "app/train/run/parts/run.h"
#include "app/train/run/start/run_engine.h"

namespace zero {

void attach_run_pipeline(Run& run, const FirstValues& values, std::int64_t checkpoint_bytes);

}  // namespace zero
