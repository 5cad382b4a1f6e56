// in_process: the ranks of a run are threads of one process. For tests, and for the proof of bits in one program.
//
//   auto ranks = make_in_process(2, 60s);
//   std::jthread other([&] { train(*ranks[1]); });
//   train(*ranks[0]);
//
// Peers read an input in place. A communicator that is destroyed while others wait for it ends their wait with a
// CommError. It shares one generator of random numbers between its ranks, so a configuration with dropout is refused
// (zero/config/rules.h).
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// Local. One communicator a rank, each for one thread. Throws ConfigError for a world below 1 or above 64.
std::vector<std::unique_ptr<Communicator>> make_in_process(int world, std::chrono::milliseconds timeout);

}  // namespace zero
