// why_bits_change(): the reason why another value of a key changes the bits of a run's losses and weights.
//
//   why_bits_change("optimizer.lr", config)        // "it decides the training"
//   why_bits_change("zero.stage", config)          // "": every stage has the same bits
//
// docs/algorithms.md ("What changes the bits") explains the reasons. A key that is not known to keep the bits changes
// them. Whether a key matters may depend on other keys of `config`: a shard group matters if copies train apart.
// Values; Local.
#pragma once

#include <cstdint>
#include <string_view>

#include "app/config/options/config.h"

namespace zero {

// Empty: the key changes no bit.
std::string_view why_bits_change(std::string_view key, const Config& config);

// The same for the number of ranks that compute different samples.
std::string_view why_bits_change_with_ranks(const Config& config);

// Returns the ranks of a configuration that was fitted to them (fit_to_world()): those that compute different samples,
// times the sections of a pipeline. 0: it was not fitted.
std::int64_t ranks_of_fitted(const Config& config);

}  // namespace zero
