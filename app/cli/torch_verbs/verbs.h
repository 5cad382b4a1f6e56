// train_verb(), plan_verb(), ...: the verbs with libtorch, one file each. table.cpp passes them to the command.
//
//   return train_verb({.loaded = loaded});
//
// Each returns the exit status, and throws ConfigError, CommError or IoError (app/cli/command/torch_entry.h).
#pragma once

#include "app/cli/command/torch_entry.h"
#include "app/config/load.h"
#include "app/config/options/config.h"
#include "app/config/resolved.h"

namespace zero::cli {

int train_verb(const TrainRequest& request);
int plan_verb(const PlanRequest& request);
int generate_verb(const GenerateRequest& request);
int bench_step_verb(const BenchStepRequest& request);
int bench_muon_verb(const BenchMuonRequest& request);

}  // namespace zero::cli
