// DryRun: how long a planned run takes in all, by a trial of its passes on its own data (`zero train --dry-run`).
//
//   const DryRun found = dry_run_of(plan, config, steps);
//   std::cout << dry_run_text(found);        // "time: about 14.2 s: 3,750 steps of 3.52 ms, and 15 evaluations of ..."
//
// A step takes its passes as timed here, or as predicted where states that come from a tier take longer, and the update as
// predicted. Steps that are done already take no time. Evaluations take timed forward passes. Start, the reading of data, what ranks send to each other, and checkpoints
// are not counted. Local: this process alone tries the passes; ranks that share a core take as many times as long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "zero/config/load.h"
#include "zero/report/run_time.h"
#include "zero/report/training_plan.h"
#include "zero/train/pass_trial.h"
#include "zero/train/run_outlook.h"

namespace zero::cli {

struct DryRun {
  std::string why_unknown;  // the time in all is not known; empty: it is
  RunTimeNeed need;
  PassSeconds passes;         // of a micro-batch; none: not timed
  std::string why_not_timed;  // empty: they are timed
  double least_seconds = 0;   // of the run, by the plan alone
  int world = 1;
  RunOutlook outlook;
  std::vector<std::string> notes;  // about the data and the first weights, that the run prints as it begins
};

// What a run is told, what it would do in its folder, and its data.
struct CheckedRun {
  TrainJob job;
  RunOutlook outlook;
  std::optional<Corpus> corpus;    // absent: it is not here
  std::vector<std::string> notes;  // about the first weights
};
// `steps`: of a run that is given its epochs. Throws ConfigError as the run does before it begins: for data, model and first
// weights that do not fit each other, and for what its folder holds.
CheckedRun check_run(Config config, int local_ranks, std::optional<std::int64_t> steps, bool overwrites);

DryRun dry_run_of(const TrainingPlan& plan, const Config& config, const CheckedRun& run);

std::string dry_run_text(const DryRun& dry_run);
nlohmann::ordered_json dry_run_json(const DryRun& dry_run);

}  // namespace zero::cli
