// resolved_toml(): the resolved configuration as text. The run folder keeps it, and ranks compare it before they start.
//
// Invariant: reading resolved_toml(c) gives c again, to the bit.
#pragma once

#include <cstdint>
#include <string>

#include "app/config/config.h"

namespace zero {

// Every key, with its value, under its section.
std::string resolved_toml(const Config& config);

// 64-bit FNV-1a of resolved_toml: equal on all ranks, or the run does not start. No key may differ per rank.
std::uint64_t config_hash(const Config& config);

}  // namespace zero
