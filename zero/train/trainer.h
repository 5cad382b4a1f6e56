// train(): one run from data to a folder with weights and a report.
//
//   TrainJob job{.model = {...}, .data = {...}, .steps = {...}, .attach = {.stage = 3}, ...};
//   TrainResult result = train(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});
//
// A step: `accumulate` micro-batches forward and backward, each loss divided by their number, then one update at the
// schedule's learning rate. A folder that holds checkpoints of a run is gone on with from the newest that is whole.
// Everything a user did wrong is a ConfigError before anything is allocated or written. A run that its health rules end
// is an Error on every rank; the last checkpoint is from before.
// Collective: every rank of `world` calls it with the same job; rank 0 prints and writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>

#include "zero/data/open_data.h"
#include "zero/report/progress.h"
#include "zero/report/report.h"
#include "zero/report/step_timeline.h"
#include "zero/torch/attach.h"
#include "zero/train/health.h"
#include "zero/train/lr_schedule.h"
#include "zero/train/run_checkpoints.h"
#include "zero/train/stop_signal.h"
#include "zero/train/task.h"
#include "zero/transport/world.h"

namespace zero {

struct StepOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 6;  // samples per rank and micro-batch
  std::int64_t accumulate = 1;
  std::uint64_t seed = 1337;
  std::int64_t eval_every = 250;   // 0: only at the end
  std::int64_t eval_batches = 20;  // 0: the whole split; the last evaluation always is
  std::int64_t log_every = 10;
  std::int64_t sample = 0;  // tokens to generate when done
};

struct TrainJob {
  ModelOptions model;
  DataOptions data;  // its context may be 0: the model's
  StepOptions train;
  LrSchedule schedule;
  CheckpointPolicy checkpoint{};
  HealthOptions health{};
  AttachOptions attach;
  std::filesystem::path run_dir;
  bool overwrite = false;
  std::string launch;             // one for all attempts of a launcher
  bool restarted = false;         // a later attempt, which goes on with what an earlier one began
  bool probe_again = false;       // what the machine manages, also where it is known from before
  std::string config_text;        // for config.toml
  std::uint64_t config_hash = 0;  // ranks that differ in it do not start
  TimelineOptions timeline;
};

struct TrainOutput {
  std::ostream& out;  // rank 0 prints here
  ProgressStyle style;
  const StopSignal* stop = nullptr;
};

struct TrainResult {
  int stop_signal = 0;       // not 0: ended by this signal; there is no report
  bool saved = false;        // then: where it stopped is on disk
  bool save_failed = false;  // the last checkpoint that was due could not be written
  bool was_done = false;     // the run folder holds this run to its end: nothing was done, there is no report
  RunReport report;          // complete on every rank but for the SHA, which rank 0 has
};

TrainResult train(const TrainJob& job, World& world, TrainOutput output);

}  // namespace zero
