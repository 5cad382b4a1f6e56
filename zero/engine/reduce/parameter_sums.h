// sums_over_ranks(): sums over whole parameters that ranks hold parts of, for rules that need them before they update.
//
//   std::vector<double> sums = sums_over_ranks(comm, mine);      // element by element; the same on every rank
//
// Exact before they are rounded: neither the number of ranks nor where their shards begin changes a bit. Collective.
#pragma once

#include <span>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"

namespace zero {

std::vector<double> sums_over_ranks(Communicator& comm, std::span<const ExactSum> mine);

}  // namespace zero
