// check_rules(): checks the rules between keys, after each key has been checked by itself.
//
// Local. Throws ConfigError with the key to change, its place, and values that would work.
#pragma once

#include "app/config/options/config.h"

namespace zero {

// Changes defaults that do not fit the given keys. For example, with 5 steps the default warm-up becomes 5 steps.
void settle_defaults(LoadedConfig& loaded);

// Checks rules about values. It does not look at files or the machine.
void check_rules(const LoadedConfig& loaded);

// Checks the machine that computes. The named files must exist and not be empty, the run folder can be created, and
// there are cores for run.threads. Creates nothing.
void check_files(const LoadedConfig& loaded);

}  // namespace zero
