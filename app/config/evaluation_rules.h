// check_evaluations(): what must hold for checkpoint.keep_best and train.patience, which compare evaluations.
//
// Local, a part of check_rules(). Throws ConfigError that names the key to change and what to do. Whether the data leave
// samples to evaluate, and whether these have classes, is looked at when the data are opened (app/train/run/run.cpp).
#pragma once

#include "app/config/config.h"

namespace zero {

void check_evaluations(const LoadedConfig& loaded);

}  // namespace zero
