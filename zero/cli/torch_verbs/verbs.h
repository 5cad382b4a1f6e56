// Verbs with libtorch: one file each; table.cpp hands them to the command. See zero/command/torch_entry.h for the
// contract: each returns the exit status and throws ConfigError, CommError or IoError.
#pragma once

#include "zero/command/torch_entry.h"
#include "zero/config/config.h"
#include "zero/config/load.h"
#include "zero/config/resolved.h"

namespace zero::cli {

int train_verb(const TrainRequest& request);
int plan_verb(const PlanRequest& request);
int generate_verb(const GenerateRequest& request);
int bench_step_verb(const BenchStepRequest& request);
int bench_muon_verb(const BenchMuonRequest& request);

}  // namespace zero::cli
