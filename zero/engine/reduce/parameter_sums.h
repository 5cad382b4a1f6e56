// sums_over_ranks(): sums values over whole parameters, of which each rank holds a part.
//
//   std::vector<double> sums = sums_over_ranks(comm, mine);      // element by element; the same on every rank
//
// Some rules need these sums before they update. Sums are exact until they are rounded, so neither the number of ranks
// nor the bounds of their shards change a bit. Collective.
#pragma once

#include <span>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"

namespace zero {

std::vector<double> sums_over_ranks(Communicator& comm, std::span<const ExactSum> mine);

}  // namespace zero
