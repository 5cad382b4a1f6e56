// train(): one run, from data to a folder with weights and a report.
//
//   TrainJob job{.model = {...}, .data = {...}, .train = {...}, .attach = {.stage = 3}, ...};
//   TrainResult result = train(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});
//
// A step is `accumulate` micro-batches forward and backward, each loss divided by their number, then one update at the
// schedule's learning rate. If the folder has checkpoints of a run, the run continues from the newest undamaged one. A
// mistake of the user throws ConfigError before anything is allocated or written. If the health rules end the run,
// every rank throws Error; the last checkpoint is then older.
//
// The phases: open the run (run_opening.h), start it (run_start.h), train (training_loop.h), end it (run_end.h).
// Collective: every rank of `world` calls it with the same job; rank 0 prints and writes.
#pragma once

#include "zero/comm/transport/world.h"

#include "app/report/report.h"
#include "app/train/run/parts/run.h"
#include "app/train/train_job.h"
#include "app/train/train_seams.h"

namespace zero {

struct TrainResult {
  int stop_signal = 0;       // signal that ended the run, without a report; 0: none
  bool saved = false;        // after a signal: a checkpoint of the last step is on disk
  bool save_failed = false;  // the last due checkpoint could not be written
  bool is_worker = false;    // this rank was a worker; the servers have the results
  bool was_done = false;     // the run was already finished: nothing was done, there is no report
  RunReport report;          // complete on every rank, except the SHA, which only rank 0 has
};

TrainResult train(const TrainJob& job, World& world, TrainOutput output, const TrainSeams& seams = {});

}  // namespace zero
