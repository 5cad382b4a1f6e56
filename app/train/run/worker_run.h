// run_worker(): a worker's part of a run with servers: it computes gradients, clock after clock, until the servers say that
// the run is over. It writes nothing and prints nothing: the servers do.
//
//   if (!sync.is_server(world.rank())) return run_worker(job, world);     // train() on the other ranks
//
// Its samples of a clock are those of its place among the workers; so a clock has the samples of a step without servers.
// A replacement of a lost worker does the same without what the ranks do together at their start: it compares its
// configuration with what the servers send along with the weights.
//
// Collective with the servers' start of the run: opening, configuration, attach(). Throws what these do, and CommError.
#pragma once

#include "zero/comm/transport/world.h"

#include "app/train/run/trainer.h"
#include "app/train/train_job.h"

namespace zero {

TrainResult run_worker(const TrainJob& job, World& world);

// The servers' side of its beginning: whether there is nothing left to do. Collective over the run.
void tell_workers(Communicator& run, bool is_done);

}  // namespace zero
