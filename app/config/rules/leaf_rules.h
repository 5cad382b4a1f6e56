// check_leaves(): the rules of train.leaves, and of features whose bits depend on the ranks.
//
//   check_leaves(loaded);                  // called by check_rules()
//   fit_leaves(loaded, /*world=*/4);       // called by fit_to_world(): sets batch, accumulate and global_batch
//
// docs/guide/equal_bits.md has the same list as a table. Local. Throws ConfigError with the key to change, its origin,
// and what to do.
#pragma once

#include <cstdint>

#include "app/config/options/config.h"

namespace zero {

// No-op without leaves.
void check_leaves(const LoadedConfig& loaded);

// Makes batch * leaves == global_batch, and sets the accumulate of `world` ranks. Only with leaves.
void fit_leaves(LoadedConfig& loaded, std::int64_t world);

// Returns the micro-batches of a rank. Only with leaves.
std::int64_t accumulate_of_leaves(std::int64_t world, const Config& config);

}  // namespace zero
