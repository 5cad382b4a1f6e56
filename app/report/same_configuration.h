// require_same_configuration(): the ranks compare their configurations before anything is allocated.
//
//   require_same_configuration(comm, hash, resolved);     // throws on every rank:
//   // configuration = rank 1: differs from rank 0's: train.steps = 7, not 6
//
// Ranks exchange only hashes. If these differ, they also exchange texts, so every rank can name the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "zero/comm/communicator.h"

namespace zero {

// Returns "section.key" -> value, from the TOML that resolved_toml() writes with one key a line. Local.
using ConfigurationKeys = std::map<std::string, std::string, std::less<>>;
ConfigurationKeys keys_of_configuration(std::string_view toml);

// Collective. Throws the same ConfigError on every rank, with the first rank whose hash differs from rank 0's. `text`:
// the resolved configuration.
void require_same_configuration(Communicator& comm, std::uint64_t hash, std::string_view text);

// Local. Returns all keys of two resolved configurations that differ, as text after a colon: " train.steps = 7, not 6;
// run.dir = ...". More than four keys have a line each. "(none)" is the value of a missing key. Empty: none differs.
std::string differing_keys(std::string_view theirs, std::string_view expected);
// Returns the keys that make another model of the second resolved configuration: " model.width = 128, not 256". This is
// the model's name, or else differing keys of its architecture, `own_keys`. A key that one configuration lacks does not
// count, nor a vocabulary that one of them leaves to its data. Empty: none.
std::string changed_model(std::string_view before, std::string_view now, std::span<const std::string_view> own_keys);
// Returns the keys that have changed, without those in `but`: " train.steps = 6 -> 7; run.dir = ...".
std::string changed_keys(std::string_view before, std::string_view now, std::span<const std::string_view> but = {});

}  // namespace zero
