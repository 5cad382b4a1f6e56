// fit_to_world(): what the number of ranks decides in a configuration: batches, groups, steps.
//
//   fit_to_world(loaded, world);     // batch, accumulate and global_batch agree, or the missing one is derived
//
// The batch rule: global_batch = batch * accumulate * world. A user may leave out one of the three keys.
//
// Local. Throws ConfigError.
#pragma once

#include <cstdint>
#include <string_view>

#include "app/config/options/config.h"

namespace zero {

// Makes batch * accumulate * world == global_batch, and derives the factors that were not given. Refuses a zero.group
// that does not divide the world, a zero.secondary_group that does not divide the group, and shares for another world.
void fit_to_world(LoadedConfig& loaded, std::int64_t world);

// Throws ConfigError under `key` if zero.group does not divide these ranks. Throws it under "sync.mode" if copies
// should train apart, but there is only one copy.
void require_whole_groups(std::int64_t world, const Config& config, std::string_view key = "zero.group");

// Throws ConfigError under `key` unless the ranks of one copy are two or more whole groups of zero.secondary_group.
void require_secondary_groups(std::int64_t world, const Config& config, std::string_view key = "zero.secondary_group");

// Replaces train.epochs by the train.steps that take each of the `samples` of an epoch that often; a last step that is
// not full also counts. Call it after fit_to_world().
void settle_epochs(LoadedConfig& loaded, std::int64_t samples);

// Returns the accumulate that keeps the samples of a step in another world: batch * accumulate * world == global_batch.
// With a pipeline its lines count instead of the ranks. `config` must be fitted to the first world. With leaves it is a
// rank's number of micro-batches. Throws ConfigError if no accumulate does.
std::int64_t accumulate_in(std::int64_t world, const Config& config);

// Returns the samples of the largest share. Measured shares have no bound without train.share_most; then it returns
// their mean.
std::int64_t most_samples(const StepOptions& train);

}  // namespace zero
