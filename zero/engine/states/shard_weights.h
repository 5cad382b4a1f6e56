// Shard weights: the weight of each rank's shards, by its memory (zero/plan/units/weighted_cut.h).
//
//   options = with_shard_weights(std::move(options), comm, world.local_size());   // {8, 4, 4}: GiB of each rank
//
// A rank's memory is its machine's free memory divided by the machine's ranks, or its device budget in bytes if that is
// less. It is measured once, before anything is allocated, and all ranks of a run agree. If there are copies of the
// model, the ranks that hold the same shard have one weight: the least of their memories. If only the first ranks own
// shards, the other ranks also take part in the exchange, and have no weight.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"

namespace zero {

// Measures and sets weights if there are none. Collective if the cut is weighted, else Local. `owners`: number of the
// first ranks that own shards; 0: all ranks. Throws ConfigError under "zero.shard_weights" if ranks name different
// weights.
AttachOptions with_shard_weights(AttachOptions options, Communicator& run, int local_world, int owners = 0);

// Collective. Returns the weights of the mesh's ranks, which are the first ranks of the run. A weight is the rank's GiB
// in steps of 1/16, at least one step. This rank may use `bytes`.
std::vector<double> weights_by_memory(Communicator& run, const Mesh& mesh, std::int64_t bytes);

}  // namespace zero
