// check_evaluations(): the rules of checkpoint.keep_best and train.patience, which compare evaluations.
//
// check_rules() calls it. app/train/train_job.cpp checks, after it has opened the data, that there are samples to
// evaluate, and that they have classes if needed.
//
// Local. Throws ConfigError that names the key to change and what to do.
#pragma once

#include "app/config/options/config.h"

namespace zero {

void check_evaluations(const LoadedConfig& loaded);

}  // namespace zero
