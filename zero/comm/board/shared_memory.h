// shared_memory: the ranks of a run are processes of one machine. The default, which needs no other library.
//
//   auto comm = connect_shared_memory(detect_ranks({}, getenv), 60s);
//
// Ranks meet at an abstract Unix socket, which rank 0 opens and which is named by user and run. There they get the
// board (board.h) and a socket to each other rank (windows.h). It works under any launcher, because it needs only one
// machine and one run id. Peers read inputs in memory from allocate() in place; other inputs are copied once more.
#pragma once

#include <chrono>
#include <memory>

#include "zero/comm/communicator.h"
#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero {

// Collective. Throws ConfigError for more than 64 ranks, for ranks on several machines, or without a run id. If a rank
// does not arrive, throws CommError with its name on every rank that did.
std::unique_ptr<Communicator> connect_shared_memory(const RankEnvironment& ranks, std::chrono::milliseconds timeout);

}  // namespace zero
