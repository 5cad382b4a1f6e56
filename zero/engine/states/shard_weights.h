// Shard weights: the weight of each rank's shards, by the memory that it may take (zero/plan/units/weighted_cut.h).
//
//   options = with_shard_weights(std::move(options), comm, world.local_size());   // {8, 4, 4}: GiB of each rank
//
// A rank may take what is free on its machine, shared by the machine's ranks, or its device budget in bytes where that is less.
// Measured once, before anything is allocated. All ranks of a run agree: a place in a copy of the model has the least that its
// ranks may take in any copy. With servers, servers have the weights, and workers take part in the measurement. The
// replacement of a lost worker does not: it hears the weights from the head.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"

namespace zero {

// Collective where the cut is weighted, else Local. Measures and fills in weights where there are none; throws ConfigError under
// "zero.shard_weights" where ranks name others, and for a number of servers that the run cannot have. On a replacement
// (zero/comm/replacements.h) it is Local, and changes nothing.
EngineOptions with_shard_weights(EngineOptions options, Communicator& run, int local_world);

// Collective. The weights of the mesh's ranks, which are the first of the run: GiB that each may take, in steps of a
// sixteenth, at least one step. This rank may take `bytes`.
std::vector<double> weights_by_memory(Communicator& run, const Mesh& mesh, std::int64_t bytes);

}  // namespace zero
