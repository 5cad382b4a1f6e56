// require_same_configuration(): before anything is allocated, the ranks compare what each of them was told.
//
// Only hashes travel, unless they differ: then the texts do too, so that every rank can name the keys.
//
//   configuration = rank 1: differs from rank 0's: train.steps = 7, not 6
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "zero/comm/communicator.h"

namespace zero {

// "section.key" -> value, of the TOML that resolved_toml() writes: one key a line. Local.
using ConfigurationKeys = std::map<std::string, std::string, std::less<>>;
ConfigurationKeys keys_of_configuration(std::string_view toml);

// Collective. Throws ConfigError, on every rank alike, that names the first rank whose hash is not rank 0's. `text` is
// the resolved configuration.
void require_same_configuration(Communicator& comm, std::uint64_t hash, std::string_view text);

// Local. What follows a colon: the keys of two resolved configurations that differ, all of them,
// " train.steps = 7, not 6; run.dir = ...", more than four on a line of their own each. "(none)" is the value of a key
// that one does not have. Empty when none differs.
std::string differing_keys(std::string_view theirs, std::string_view expected);
// Of two resolved configurations, the keys that make another model of the second: its name, or else what differs of
// `own_keys`, which are those of its architecture: " model.width = 128, not 256". A key that one of them does not have,
// and a vocabulary that one of them leaves to its data, do not count. Empty: none.
std::string changed_model(std::string_view before, std::string_view now, std::span<const std::string_view> own_keys);
// The same: " train.steps = 6 -> 7; run.dir = ...".
// Without the keys in `but`.
std::string changed_keys(std::string_view before, std::string_view now, std::span<const std::string_view> but = {});

}  // namespace zero
