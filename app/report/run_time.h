// RunTime: roughly how long a whole run will take: its predicted steps, and its evaluations.
//
//   const RunTime time = run_time({.steps = 2000, .step_seconds = 0.033, .batch_seconds = 0.004, .eval_every = 250,
//                                  .eval_batches = 20, .split_batches = 60});
//   time.evaluations          // 8: after the steps 250, 500, ... 1750, and the last
//   run_time_text(...)        // "about 70 s: 2,000 steps of 33 ms, and 8 evaluations of 4.00 s together"
//
// An evaluation takes the forward passes of its batches; the last one uses the whole validation split. If evaluations
// are compared, the last step has one more, like those before it. The start, the first steps, checkpoints and the
// gathers of an evaluation are not counted. Values only; Local.
#pragma once

#include <cstdint>
#include <string>

namespace zero {

struct RunTimeNeed {
  std::int64_t first_step = 0;  // number of steps that are done already
  std::int64_t steps = 0;       // number of steps that remain
  double step_seconds = 0;
  double batch_seconds = 0;        // of a forward pass over a micro-batch
  std::int64_t eval_every = 0;     // steps between two evaluations; 0: only one, at the end
  std::int64_t eval_batches = 0;   // of a rank, in an evaluation; 0: the whole split
  std::int64_t split_batches = 0;  // of a rank, in the whole validation split; 0: no validation split
  int passes = 1;                  // over the batches of an evaluation: 2 if averages of the weights are evaluated too
  bool compares = false;           // evaluations are compared (train.patience, checkpoint.keep_best)
};

struct RunTime {
  std::int64_t evaluations = 0;
  double evaluation_seconds = 0;  // of all evaluations
  double total_seconds = 0;
};

RunTime run_time(const RunTimeNeed& need);
std::string run_time_text(const RunTimeNeed& need);

}  // namespace zero
