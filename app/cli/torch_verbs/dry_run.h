// DryRun: how long a planned run takes, from a trial of its passes on its own data (`zero train --dry-run`).
//
//   const DryRun found = dry_run_of(plan, config, run);
//   std::cout << dry_run_text(found);        // "time: about 14.2 s: 3,750 steps of 3.52 ms, and 15 evaluations of ..."
//
// The time of a step is its timed passes plus the predicted update. If loading states from a tier takes longer, the
// predicted passes count instead. Steps that are done already take no time. Evaluations take timed forward passes. The
// start, reading of data, communication between ranks, and checkpoints are not counted. Local: only this process tries
// the passes. Ranks that share a core take as many times as long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/config/load.h"
#include "app/report/plan/training_plan.h"
#include "app/report/run_time.h"
#include "app/train/run/start/run_outlook.h"
#include "app/train/run/trials/pass_trial.h"

namespace zero::cli {

struct DryRun {
  std::string why_unknown;  // why the total time is not known; empty: it is
  RunTimeNeed need;
  PassSeconds passes;         // seconds of a micro-batch; none: not timed
  std::string why_not_timed;  // why the passes are not timed; empty: they are
  double least_seconds = 0;   // seconds of the run by the plan, without timed passes
  int world = 1;
  RunOutlook outlook;
  std::vector<std::string> notes;  // notes about data and first weights that the run prints at its begin
};

// The job of a run, its plans for its folder, and its data.
struct CheckedRun {
  TrainJob job;
  RunOutlook outlook;
  std::optional<Corpus> corpus;    // nullopt: the data is not on this machine
  std::vector<std::string> notes;  // about the first weights
};
// Checks a run before it begins. `steps`: its number of steps, if the configuration gives epochs. Throws ConfigError as
// the run does: if data, model and first weights do not fit each other, or if its folder contains something unsuitable.
CheckedRun check_run(Config config, int local_ranks, std::optional<std::int64_t> steps, bool overwrites);

DryRun dry_run_of(const TrainingPlan& plan, const Config& config, const CheckedRun& run);
// The same with a pipeline, whose time is not known in all.
DryRun dry_run_of_pipeline(const CheckedRun& run, int world);

std::string dry_run_text(const DryRun& dry_run);
nlohmann::ordered_json dry_run_json(const DryRun& dry_run);

}  // namespace zero::cli
