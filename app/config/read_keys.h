// check_keys_are_read(): a key that nothing reads is refused, as it would change nothing. Some keys say which others are read:
// model.name, data.kind, optimizer.name, schedule.name, train.dtype.
//
//   [model]
//   name = "lstm"
//   heads = 4        # model.name = "lstm" has no such key
//
// Local. Errors: ConfigError that names the key, where it was given, and which values of the other key would read it.
#pragma once

#include <string_view>

#include "app/config/config.h"

namespace zero {

// Where a key was given: 2 on the command line, which wins over 1, the environment, and that over 0, the file; -1 nowhere.
int rank_of(const LoadedConfig& loaded, std::string_view name);

// What a file says of the model, the kind of data or the rule that it names is no slip where the command line names
// another: those keys have their defaults again, so that the run's config.toml can be read like any other file.
void settle_overruled(LoadedConfig& loaded);

// Is the file the config.toml of a run? That has every key, also those that nothing of the run reads, with their defaults.
// Ask before settle_overruled(), which takes keys away.
bool is_file_of_a_run(const LoadedConfig& loaded);

// Refuses a key that is given and not read, whatever its value; except, of_a_run, for what a run wrote into its file: a
// default, or a schedule.min_lr.
void check_keys_are_read(const LoadedConfig& loaded, bool of_a_run);

}  // namespace zero
