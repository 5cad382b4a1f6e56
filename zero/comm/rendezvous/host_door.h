// HostDoor: rank 0's side of a run on one machine that takes back lost ranks. It stays open after the rendezvous for
// the new process of such a rank (its replacement).
//
//   if (const std::optional<int> rank = door.knocking(lost)) {
//     std::vector<UnixSocket> ends = door.hand_out(*rank, only(1));    // ends[1] is for rank 1
//     ...each peer takes its end...
//     UnixSocket own = door.let_in(*rank);                              // the process begins
//   }
//
// The process gets the board and a connection to each peer before it begins. A process of another version, world or
// generation is refused, and so is a second process of a rank at its first start. A process that ends while it waits is
// forgotten. Local. Throws IoError.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/comm/rendezvous/host_messages.h"
#include "zero/comm/rendezvous/rank_set.h"
#include "zero/comm/rendezvous/unix_socket.h"

namespace zero {

class HostDoor {
 public:
  // `most`: replacements that the run allows, over all ranks.
  HostDoor(UnixSocket listener, FileDescriptor board, int world, int generation, int most);
  HostDoor(HostDoor&&) = default;
  HostDoor& operator=(HostDoor&&) = default;
  // Tells all waiting and arriving processes that the run has ended. Waits at most a second for a process that has not
  // yet said hello.
  ~HostDoor();

  int most() const { return most_; }
  // Returns a rank of `wanted` whose new process waits. Never waits.
  std::optional<int> knocking(RankSet wanted);
  // Gives the waiting process of `rank` the board, and one end of a connection for each of `peers`. Returns the other
  // ends, by rank.
  std::vector<UnixSocket> hand_out(int rank, RankSet peers);
  // Lets the process begin, and returns its connection to rank 0.
  UnixSocket let_in(int rank);

 private:
  void welcome(const HostHello& hello, UnixSocket socket);
  void forget_the_dead();
  std::string why_not(const HostHello& hello) const;

  UnixSocket listener_;
  HostCallers callers_;
  FileDescriptor board_;
  int world_, generation_, most_;
  std::map<int, UnixSocket> waiting_;  // by rank
};

}  // namespace zero
