// Collectives: sums, gathers and broadcasts over the ranks of a World, for values of your own.
//
//   zero::all_reduce_min(world.communicator(), batches);   // Collective: each rank calls it
#pragma once

#include "zero/comm/collectives.h"
