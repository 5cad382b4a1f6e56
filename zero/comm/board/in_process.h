// in_process: the ranks of a run are threads of one process. For tests, and to compare bits within one program.
//
//   auto ranks = make_in_process(2, 60s);
//   std::jthread other([&] { train(*ranks[1]); });
//   train(*ranks[0]);
//
// Peers read an input in place. If a communicator is destroyed while others wait for it, their wait throws CommError.
// All ranks share one random number generator, so configurations with dropout are refused (app/config/rules/rules.h).
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// Local. Makes one communicator for each rank, each for one thread. Throws ConfigError for a world below 1 or above 64.
std::vector<std::unique_ptr<Communicator>> make_in_process(int world, std::chrono::milliseconds timeout);

}  // namespace zero
