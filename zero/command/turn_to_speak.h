// wait_before_words(): the time that a rank waits before it prints its error, under launchers that do not merge the
// output of ranks: mpirun, srun and torchrun.
//
//   std::this_thread::sleep_for(wait_before_words(error, detect_ranks({}, getenv)));
//   print(error.what());
//
// Those launchers end all ranks when the first has ended with an error. So the rank that knows most prints at once.
// Ranks that would print the same, or less, wait for the launcher to end them. If it does not, they print, too.
//
// Local.
#pragma once

#include <chrono>
#include <exception>

#include "zero/rendezvous/detect_ranks.h"

namespace zero::cli {

// 0 for one rank alone, for ranks of `zero launch` (it merges), and for an error of this rank's own. An error that all
// ranks of a machine have (ConfigError, SharedIoError) is printed by the first of them. Another rank's failure
// (CommError) is printed by rank 0 (by rank 1, if rank 0 failed), at once, since the launcher may be about to end it.
std::chrono::seconds wait_before_words(const std::exception& error, const RankEnvironment& ranks);

}  // namespace zero::cli
