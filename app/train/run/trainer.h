// train(): one run from data to a folder with weights and a report.
//
//   TrainJob job{.model = {...}, .data = {...}, .train = {...}, .attach = {.stage = 3}, ...};
//   TrainResult result = train(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});
//
// A step: `accumulate` micro-batches forward and backward, each loss divided by their number, then one update at the
// schedule's learning rate. A folder that holds checkpoints of a run is gone on with from the newest that is whole.
// Everything a user did wrong is a ConfigError before anything is allocated or written. A run that its health rules end
// is an Error on every rank; the last checkpoint is from before.
// Collective: every rank of `world` calls it with the same job; rank 0 prints and writes.
//
// In this order: open the run (run_opening.h), start it (run_start.h), train (training_loop.h), end it (run_end.h).
#pragma once

#include "zero/comm/transport/world.h"

#include "app/report/report.h"
#include "app/train/run/run.h"
#include "app/train/train_job.h"
#include "app/train/train_seams.h"

namespace zero {

struct TrainResult {
  int stop_signal = 0;       // not 0: ended by this signal; there is no report
  bool saved = false;        // then: where it stopped is on disk
  bool save_failed = false;  // the last checkpoint that was due could not be written
  bool is_worker = false;    // this rank computed for servers, which have the rest
  bool was_done = false;     // the run folder holds this run to its end: nothing was done, there is no report
  RunReport report;          // complete on every rank but for the SHA, which rank 0 has
};

TrainResult train(const TrainJob& job, World& world, TrainOutput output, const TrainSeams& seams = {});

}  // namespace zero
