// HostRendezvous: brings the processes of a run on one machine together, and gives any two of them a connection.
//
// Rank 0 listens at an abstract socket; each other rank tells it its number. When all are there, rank 0 hands out the
// board's memory and, for every two of them, the two ends of a socket pair. Both sides check that the other belongs to
// the same user. A rank of an earlier generation (that the launcher started before its last restart) is told so and
// counts for nothing, and a rank 0 of an earlier one gives up. A rank that is missing after the timeout is named on
// every rank that came. A rank that has SIGINT or SIGTERM blocked and pending gives up at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/rendezvous/unix_socket.h"

namespace zero {

struct HostRendezvous {
  Allocation board;                 // zeroed, shared by all
  std::vector<UnixSocket> sockets;  // one a rank; this rank's own is empty
};

// Collective. `name`: the socket's, and `board_bytes`: of the board, the same on all ranks. Throws CommError.
HostRendezvous meet_on_host(const std::string& name, int rank, int world, int generation, std::size_t board_bytes,
                            std::chrono::milliseconds timeout);

}  // namespace zero
