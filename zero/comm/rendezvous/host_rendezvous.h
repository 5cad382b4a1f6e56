// HostRendezvous: brings the processes of a run on one machine together, and connects every pair of them.
//
// Rank 0 listens at an abstract socket, and each other rank tells it its number. When all have arrived, rank 0 sends
// the board's memory and, for each pair of ranks, the two ends of a socket pair. Both sides check that the other
// belongs to the same user. A rank of an earlier generation (from before the launcher's last restart) is refused and
// does not count. If rank 0 itself is of an earlier generation than a rank that comes, rank 0 gives up. A rank that is
// missing after the timeout is named on every rank that came. A rank with SIGINT or SIGTERM blocked and pending gives
// up at once.
//
// With replacements, the door stays open (host_door.h). The new process of a lost rank arrives in the same way. It
// learns that the others have begun, and waits as long as rank 0 lives. A rank that ends before all have arrived ends
// the meeting, with or without replacements.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/process/allocation.h"
#include "zero/comm/rendezvous/host_door.h"
#include "zero/comm/rendezvous/unix_socket.h"

namespace zero {

struct HostRendezvous {
  Allocation board;                 // zeroed, shared by all ranks
  std::vector<UnixSocket> sockets;  // one for each rank; this rank's own is empty
  bool is_replacement = false;     // true: this process is a replacement, connected only to the ranks that rank 0 named
  std::optional<HostDoor> door{};  // only on rank 0, if replacements may come
};

struct HostReplacements {
  int number = 0;  // number of this process among those of its rank; 0: the first
  int most = 0;    // most replacements, over all ranks
};

// Collective. `name` is the socket's name and `board_bytes` the size of the board, both the same on all ranks. Throws
// CommError.
HostRendezvous meet_on_host(const std::string& name, int rank, int world, int generation, std::size_t board_bytes,
                            std::chrono::milliseconds timeout, const HostReplacements& replacements = {});

}  // namespace zero
