// shared_memory: the ranks of a run are processes of one host. The embedded default.
//
//   auto comm = connect_shared_memory(detect_ranks({}, getenv), 60s);
//
// Ranks meet at an abstract Unix socket named by user and run, which rank 0 opens; there they get the board (board.h)
// and a socket to each other rank (windows.h). Works under any launcher, since it needs only one machine and one run id.
// Inputs in memory from allocate() are read in place by the peers; others are copied once more.
#pragma once

#include <chrono>
#include <memory>

#include "zero/comm/communicator.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero {

// Collective. Throws ConfigError for more than 64 ranks or ranks on several machines, CommError when a rank does not
// arrive (it is named on every rank that did).
std::unique_ptr<Communicator> connect_shared_memory(const RankEnvironment& ranks, std::chrono::milliseconds timeout);

}  // namespace zero
