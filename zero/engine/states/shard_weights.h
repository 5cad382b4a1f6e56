// Shard weights: the weight of each rank's shards, by its memory (zero/plan/units/weighted_cut.h).
//
//   options = with_shard_weights(std::move(options), comm, world.local_size());   // {8, 4, 4}: GiB of each rank
//
// A rank's memory is its machine's free memory divided by the machine's ranks, or its device budget in bytes if that is
// less. It is measured once, before anything is allocated, and all ranks of a run agree. If there are copies of the
// model, the ranks that hold the same shard have one weight: the least of their memories. With servers, only servers
// have weights, but workers also take part in the exchange. The replacement of a lost worker takes no part: it receives
// the weights from the head.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"

namespace zero {

// Measures and sets weights if there are none. Collective if the cut is weighted, else Local. On a replacement
// (zero/comm/replacements.h) it is Local, and changes nothing. Throws ConfigError under "zero.shard_weights" if ranks
// name different weights, and for a number of servers that the run cannot have.
AttachOptions with_shard_weights(AttachOptions options, Communicator& run, int local_world);

// Collective. Returns the weights of the mesh's ranks, which are the first ranks of the run. A weight is the rank's GiB
// in steps of 1/16, at least one step. This rank may use `bytes`.
std::vector<double> weights_by_memory(Communicator& run, const Mesh& mesh, std::int64_t bytes);

}  // namespace zero
