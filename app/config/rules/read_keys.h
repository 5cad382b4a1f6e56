// check_keys_are_read(): refuses a key that nothing reads, because it would have no effect.
//
//   [model]
//   name = "lstm"
//   heads = 4        # model.name = "lstm" has no such key
//
// These keys decide which other keys are read: model.name, data.kind, optimizer.name, schedule.name, train.dtype.
//
// Local. Throws ConfigError with the key, its place, and the values of the deciding key that read it.
#pragma once

#include <string_view>

#include "app/config/options/config.h"

namespace zero {

// Returns the priority of a key's source. 2: command line; 1: environment; 0: file; -1: the key was not given.
int rank_of(const LoadedConfig& loaded, std::string_view name);

// If a stronger source changes the model, the kind of data, the rule, the learning-rate schedule or the dtype, keys of
// weaker sources may become unread. Sets them to their defaults. For example, a file has keys for its model, and the
// command line names another model. That is not an error, and the run's config.toml can then be read like any other
// file.
void settle_overruled(LoadedConfig& loaded);

// Is the file the config.toml of a run? Such a file has every key, also keys that the run does not read. Call it before
// settle_overruled(), which removes keys.
bool is_file_of_a_run(const LoadedConfig& loaded);

// Refuses a key that is given and not read. If `of_a_run`, the file may have a default of such a key, and any
// schedule.min_lr, because a run writes these.
void check_keys_are_read(const LoadedConfig& loaded, bool of_a_run);

}  // namespace zero
