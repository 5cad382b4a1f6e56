// How long a rank waits before it prints why it ends, under launchers that do not merge the output of ranks: mpirun,
// srun and torchrun.
//
//   std::this_thread::sleep_for(wait_before_words(error, detect_ranks({}, getenv)));
//   print(error.what());
//
// Those launchers end all ranks when the first has ended with an error. So the rank that knows most prints at once.
// Ranks that would print the same, or less, wait until the launcher has ended them. If it does not, all print: nothing
// is lost.
//
// Local.
#pragma once

#include <chrono>
#include <exception>

#include "zero/rendezvous/detect_ranks.h"

namespace zero::cli {

// 0 for one rank alone, for ranks of `zero launch` (it merges), and for an error of this rank's own. What each rank of
// a host meets alike (ConfigError) is said by the first of them; another rank's failure (CommError) by rank 0,
// or rank 1 where it is rank 0's: at once, since the launcher may be about to end it.
std::chrono::seconds wait_before_words(const std::exception& error, const RankEnvironment& ranks);

}  // namespace zero::cli
