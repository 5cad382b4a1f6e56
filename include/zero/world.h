// World: the ranks of this run.
//
//   auto world = zero::World::from_environment();   // torchrun, mpirun, srun, zero launch, or one process
//   world.rank(), world.size()
#pragma once

#include "zero/comm/transport/world.h"
