// Weighted cut: ranges of each unit in proportion to a weight of each rank, such as the memory that it may take.
//
//   std::vector<Unit> units = weighted_units(make_units(specs, {}), std::vector<double>{2, 1, 1}, /*own=*/1);
//   shard_of(units[u], 0, 3).numel          // half of the unit
//   shard_numel(units[u], 3)                // a quarter: the shard of rank 1, which is `own`
//
// Shards follow each other like equal ranges, but Unit::bounds separates them. Each begins and ends at a multiple of
// alignment_numel(unit), and no shard is padded to the largest. Each rank has at least one such block of every unit, so
// all ranks take part in the same collectives. Values only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

// Cuts `units`, as made by make_units(). `weights`: one per rank, as require_weights() demands.
std::vector<Unit> weighted_units(std::vector<Unit> units, std::span<const double> weights, int own);

// Returns the units from the view of `own`: shard_numel(), and the bytes computed from it, are that rank's.
std::vector<Unit> as_seen_by(std::vector<Unit> units, int own);

// Throws ConfigError under `key` unless `weights` has one positive number for each of the `owners` that hold the model
// once. `owner`: the error's word for an owner.
void require_weights(std::span<const double> weights, int owners, std::string_view key = "zero.shard_weights",
                     std::string_view owner = "rank");

// Prints weights: "2, 1, 1".
std::string weights_text(std::span<const double> weights);

}  // namespace zero
