// The rules of a run's length and its schedule: train.steps and epochs, warm-up and decay.
//
//   settle_length(loaded);      // --train.epochs 3 wins over the steps of the file
//   settle_schedule(loaded);    // --train.steps 2 shortens the warm-up of the file: a line in loaded.notes says so
//   check_length(loaded);
//   check_schedule(loaded);     // as parts of check_rules()
//
// Local. Throws ConfigError with the key to change, its place, and values that would work.
#pragma once

#include "app/config/config.h"

namespace zero {

void settle_length(LoadedConfig& loaded);

// A warm-up or decay that is a default, or comes from a weaker source than the number of steps, yields to that number.
void settle_schedule(LoadedConfig& loaded);

void check_length(const LoadedConfig& loaded);
void check_schedule(const LoadedConfig& loaded);

}  // namespace zero
