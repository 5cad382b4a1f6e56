// start_run(): makes a run that may start ready for its next step: what it is told is judged and said, its engine is
// attached, states come from a checkpoint where there is one, and the folder is the run's.
//
//   const RunOpening opening(...);                                      // not done
//   auto weights = start_run(run, opening);                             // run.engine is there, run.state says the step
//   RunEnd end(run, std::move(weights));
//
// The folder is written last, when nothing can be refused any more. Collective. Returns, on rank 0, the files for the
// weights that the run ends with, which have their room on the disk. Throws ConfigError for all that a user did wrong.
#pragma once

#include "app/train/run/run.h"
#include "app/train/run/run_opening.h"
#include "app/train/weights/weights.h"

namespace zero {

RunWeights start_run(Run& run, const RunOpening& opening);

}  // namespace zero
