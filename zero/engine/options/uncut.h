// uncut(): returns the same options with equal ranges.
//
//   const std::vector<Unit> whole = units_of(specs, 1, uncut(options));
//
// With these options units_of() makes whole units: for a single rank, and for a worker whose servers cut units in
// another way. Values only; Local.
#pragma once

#include "zero/engine/options/options.h"

namespace zero {

inline AttachOptions uncut(AttachOptions options) {
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  return options;
}

}  // namespace zero
