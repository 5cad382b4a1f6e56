// settle_schedule(), check_evaluations(): the rules of a run's length, learning rate and evaluations.
//
//   settle_length(loaded);      // --train.epochs 3 has priority over the steps of the file
//   settle_schedule(loaded);    // --train.steps 2 shortens the warm-up of the file: a line in loaded.notes says so
//   check_length(loaded);
//   check_schedule(loaded);     // check_rules() calls all checks
//
// Local. Throws ConfigError with the key to change, its place, and values that would work.
#pragma once

#include "app/config/options/config.h"

namespace zero {

// If steps and epochs have different sources, removes the key of the weaker source.
void settle_length(LoadedConfig& loaded);

// Shortens a warm-up or decay that is too long for the number of steps, if it is a default or has a weaker source.
void settle_schedule(LoadedConfig& loaded);

// Checks train.steps and train.epochs.
void check_length(const LoadedConfig& loaded);
// Checks warm-up, decay and schedule.min_lr.
void check_schedule(const LoadedConfig& loaded);
// Checks checkpoint.keep_best and train.patience, which compare evaluations. app/train/train_job.cpp checks, after it
// has opened the data, that there are samples to evaluate, and that they have classes if needed.
void check_evaluations(const LoadedConfig& loaded);

}  // namespace zero
