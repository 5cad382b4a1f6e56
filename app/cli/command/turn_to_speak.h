// wait_before_words(): the time that a rank waits before it prints its error.
//
//   std::this_thread::sleep_for(wait_before_words(error, detect_ranks({}, getenv)));
//   print(error.what());
//
// It is for launchers that do not merge the output of ranks: mpirun, srun and torchrun. Those launchers end all ranks
// when the first rank has ended with an error. So the rank that knows most prints at once. Ranks that would print the
// same, or less, wait for the launcher to end them. If it does not, they also print.
//
// Local.
#pragma once

#include <chrono>
#include <exception>

#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero::cli {

// Returns 0 for a world of one rank, for ranks of `zero launch` (it merges), and for an error that only this rank has.
// If all ranks of a machine have the error (ConfigError, SharedIoError), the machine's first rank prints it. If another
// rank failed (CommError), rank 0 prints it at once (rank 1 if rank 0 failed), because the launcher may soon end it.
std::chrono::seconds wait_before_words(const std::exception& error, const RankEnvironment& ranks);

}  // namespace zero::cli
