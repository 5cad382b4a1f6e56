// Weighted cut: ranges of each unit in proportion to a weight of each rank, such as the memory that it may take.
//
//   std::vector<Unit> units = weighted_units(make_units(specs, {}), std::vector<double>{2, 1, 1}, /*own=*/1);
//   shard_of(units[u], 0, 3).numel          // half of the unit
//   shard_numel(units[u], 3)                // a quarter: that of rank 1, for whom these units speak
//
// Shards lie one after the other, as equal ranges do, but between Unit::bounds: each begins and ends at a multiple of
// alignment_numel(unit), and nothing is padded to the largest. A rank has at least one such block of every unit, so that all
// ranks take part in the same collectives. Values only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/plan/unit.h"

namespace zero {

// `units` as make_units() has made them; one weight a rank, as require_weights() wants them.
std::vector<Unit> weighted_units(std::vector<Unit> units, std::span<const double> weights, int own);

// The same units as `own` sees them: shard_numel(), and the bytes that follow from it, are that rank's.
std::vector<Unit> as_seen_by(std::vector<Unit> units, int own);

// Throws ConfigError under `key` for weights that are not one positive number for each of the `owners` that
// hold the model once. `owner`: what the error calls an owner.
void require_weights(std::span<const double> weights, int owners, std::string_view key = "zero.shard_weights",
                     std::string_view owner = "rank");

// "2, 1, 1"
std::string weights_text(std::span<const double> weights);

}  // namespace zero
