// HostRendezvous: brings the processes of a run on one machine together, and gives any two of them a connection.
//
// Rank 0 listens at an abstract socket; each other rank tells it its number. When all are there, rank 0 hands out the
// board's memory and, for every two of them, the two ends of a socket pair. Both sides check that the other belongs to
// the same user. A rank of an earlier generation (that the launcher started before its last restart) is told so and
// counts for nothing, and a rank 0 of an earlier one gives up. A rank that is missing after the timeout is named on
// every rank that came. A rank that has SIGINT or SIGTERM blocked and pending gives up at once.
//
// With replacements the door stays open (host_door.h). The new process of a rank that was lost comes the same way, and
// is told that the others have begun; it waits for that as long as rank 0 lives. A rank that ends before all are there
// ends the meeting, with replacements or without.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/rendezvous/host_door.h"
#include "zero/rendezvous/unix_socket.h"

namespace zero {

struct HostRendezvous {
  Allocation board;                 // zeroed, shared by all
  std::vector<UnixSocket> sockets;  // one a rank; this rank's own is empty
  bool is_replacement = false;      // this process is one: it has connections to those alone whom rank 0 named
  std::optional<HostDoor> door{};   // rank 0's, where replacements may come
};

struct HostReplacements {
  int number = 0;  // of this process among those of its rank; 0: the first
  int most = 0;    // that may come, of all ranks
};

// Collective. `name`: the socket's, and `board_bytes`: of the board, the same on all ranks. Throws CommError.
HostRendezvous meet_on_host(const std::string& name, int rank, int world, int generation, std::size_t board_bytes,
                            std::chrono::milliseconds timeout, const HostReplacements& replacements = {});

}  // namespace zero
