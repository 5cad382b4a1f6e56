// run_worker(): a worker's part of a run with servers: it computes gradients, clock after clock, until the run is over.
//
//   if (!sync.is_server(world.rank())) return run_worker(job, world);     // train() on the other ranks
//
// The servers send it the end of the run. Only servers write files and print. Its samples of a clock depend on its
// number among the workers, so a clock has the samples of a step without servers. A replacement of a lost worker skips
// the collectives of the start. Instead it compares its configuration with the one that the servers send with the
// weights.
//
// Collective with the servers' start of the run: opening, configuration, attach(). Throws as these do, and CommError.
#pragma once

#include "zero/comm/transport/world.h"

#include "app/train/run/trainer.h"
#include "app/train/train_job.h"

namespace zero {

TrainResult run_worker(const TrainJob& job, World& world);

// Servers call it when they start: workers then know whether the run is already done. Collective over the run.
void share_is_done(Communicator& run, bool is_done);

}  // namespace zero
