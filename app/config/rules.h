// check_rules(): the rules between keys, each of which is right alone. It calls one function for each rule.
//
// Local. Errors: ConfigError that names the key to change, where it was given, and the values that would work.
#pragma once

#include "app/config/config.h"

namespace zero {

// Defaults yield to what was given: with 5 steps to try something out, the warm-up that nobody asked for is 5 steps
// too.
void settle_defaults(LoadedConfig& loaded);

// Rules on values alone.
void check_rules(const LoadedConfig& loaded);

// What the machine that computes must have: the files that are named exist and are not empty, the run folder can be
// created, and there are cores for run.threads. Creates nothing.
void check_files(const LoadedConfig& loaded);

}  // namespace zero
