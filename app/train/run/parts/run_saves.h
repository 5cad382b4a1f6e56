// save_run(), save_run_in_memory(): begin a checkpoint of a run's current step, on disk or in the launcher's memory.
//
//   if (to_memory) save_run_in_memory(run);
//   if (to_disk) save_run(run);
//   run.checkpoints.finish(run.model.trained());        // the save on disk is complete
//
// They add the series and sums of the steps, the mark of the data, and the places of the ranks to `run.state`.
// Collective. The metrics of every step must have been exchanged before (RunLog).
#pragma once

#include "app/train/run/parts/run.h"

namespace zero {

void save_run(Run& run);
void save_run_in_memory(Run& run);

}  // namespace zero
