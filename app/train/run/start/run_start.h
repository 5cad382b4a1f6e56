// start_run(): prepares a run for its next step: checks options, attaches the engine, loads states, writes the folder.
//
//   const RunOpening opening(...);                                      // not done
//   auto weights = start_run(run, opening);                             // sets run.model.engine and run.state
//   RunEnd end(run, std::move(weights));
//
// States are loaded if there is a checkpoint. The folder is written last, when no check can fail any more. Collective.
// Returns, on rank 0, the files for the weights at the run's end, with reserved disk space. Throws ConfigError for
// every mistake of the user.
#pragma once

#include "app/train/run/parts/run.h"
#include "app/train/run/start/run_opening.h"
#include "app/train/weights/weights.h"

namespace zero {

RunWeights start_run(Run& run, const RunOpening& opening);

}  // namespace zero
