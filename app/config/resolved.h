// resolved_toml(): the resolved configuration as text.
//
// The run folder has this text, and ranks compare its hash before they start. Reading resolved_toml(c) gives c again,
// with the same bits. Local.
#pragma once

#include <cstdint>
#include <string>

#include "app/config/options/config.h"

namespace zero {

// Returns every key with its value, under its section; with train.leaves without train.accumulate, which follows from
// the leaves and the ranks.
std::string resolved_toml(const Config& config);

// Returns the 64-bit FNV-1a hash of resolved_toml(). A run starts only if all ranks have the same hash, so no key may
// differ between ranks.
std::uint64_t config_hash(const Config& config);

}  // namespace zero
