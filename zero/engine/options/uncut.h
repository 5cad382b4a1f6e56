// uncut(): the same options with equal ranges. With them units_of() makes units as one rank alone has them, and as a worker of
// servers has them, whatever cut the servers have.
//
//   const std::vector<Unit> whole = units_of(specs, 1, uncut(options));
//
// Values only; Local.
#pragma once

#include "zero/engine/options/options.h"

namespace zero {

inline EngineOptions uncut(EngineOptions options) {
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  return options;
}

}  // namespace zero
