// uncut(): returns the same options with equal ranges.
//
//   const std::vector<Unit> whole = units_of(specs, 1, uncut(options));
//
// With them units_of() makes the units of a single rank, and of a worker, whatever cut the servers have. Values only;
// Local.
#pragma once

#include "zero/engine/options/options.h"

namespace zero {

inline EngineOptions uncut(EngineOptions options) {
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  return options;
}

}  // namespace zero
