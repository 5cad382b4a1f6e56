// Run: the parts of one run, constructed in the order of their dependencies and destroyed in reverse.
//
//   Run run(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});   // opens the data
//   run.model.engine.emplace(attach(run.model.task->module(), world, options));              // run_start.h
//   run.say("ranks: 2 (zero launch, shared_memory)");                                        // rank 0 prints it
//   save_run(run);                                                                           // run_saves.h
//
// The code that opens, starts, trains and ends a run shares these parts. Data that only one of these phases needs are
// not here. The constructor writes nothing, and allocates nothing for the model. Throws ConfigError for a device that
// cannot be used, data that cannot be read, and a model that does not fit the data. Local.
#pragma once

#include <string>

#include "zero/comm/transport/world.h"

#include "app/report/step_timeline.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/parts/run_health.h"
#include "app/train/run/parts/run_parts.h"
#include "app/train/train_job.h"
#include "app/train/train_seams.h"

namespace zero {

struct Run {
  // `with`, `world` and `output` must outlive it. A worker of a run with servers does not use it (worker_run.h).
  // Collective over the run if it has servers.
  Run(const TrainJob& with, World& world, const TrainOutput& output, const TrainSeams& seams = {});

  // Rank 0 prints a line.
  void say(const std::string& line) { records.progress.line(line); }

  const TrainJob& job;
  const StopSignal* const stop;  // null: signals are not watched
  RunRanks ranks;
  RunFolder folder;
  StepTimeline timeline;
  RunData data;
  RunModel model;
  RunRecords records;
  RunState state;              // progress of the run; its series are those of the last save: `log` has the newest
  RunCheckpoints checkpoints;  // declared after `model`: a save is destroyed before its engine
  RunHealth health;
};

}  // namespace zero
