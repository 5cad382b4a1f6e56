// BoardWait: waits for other ranks, and finds out why one does not come.
//
//   wait.until_nobody([&] { return ranks_that_have_not_posted(); }, what);
//
// Sleeps on this rank's bell, wakes ten times a second to look whether a process ended, and throws the CommError that
// every rank throws: a rank died (at once), left (at once), or is late (after the timeout, with its last collective).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "zero/comm/board.h"
#include "zero/comm/peer_memory.h"

namespace zero {

class BoardWait {
 public:
  // `suffix` names the group whose board it is; empty for the world.
  BoardWait(Board& board, PeerMemory& memory, int rank, std::chrono::milliseconds timeout, std::string suffix = "");

  // Local. Returns when late() is empty. late() names the ranks that are waited for, and loads with
  // memory_order_seq_cst.
  template <class Late>
  void until_nobody(Late&& late, const Signature& what) {
    if (board_.failed()) board_.throw_failure();
    if (late() == 0) return;
    if (spin_ && spin_until([&] { return late() == 0; })) return;
    sleep_until_nobody(late, what);
  }

  // Local. The same for a limited time, without an error: false when late() still names ranks, or the run has failed.
  bool try_until_nobody(const std::function<RankSet()>& late, std::chrono::milliseconds limit);

  // Local. Sleeps until ready(), which loads with memory_order_seq_cst; false after the limit (0: there is none). Nobody is
  // late here, but a death ends the run as in any wait.
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit);

  // Local. Makes this error, of a collective here, the run's error, unless there is one already, and throws that.
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason);

  double seconds() const { return seconds_; }

 private:
  void sleep_until_nobody(const std::function<RankSet()>& late, const Signature& what);
  void check_alive(const std::function<RankSet()>& late, const Signature& what);
  // Of the dead, those whose death ends the run. The others have left it. `seen`: what the board said before, by rank.
  RankSet fatal(RankSet dead, std::span<const std::uint32_t> seen);
  [[noreturn]] void fail_late(RankSet late, const Signature& what);
  int first_at_fault(RankSet late) const;
  // What a rank did last; describe(): and what its process does now. Of a dead one the system may still say that it
  // runs.
  std::string describe_progress(int rank) const;
  std::string describe(int rank) const;

  Board& board_;
  PeerMemory& memory_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::string suffix_;
  bool spin_;  // every rank can have a core
  double seconds_ = 0;
};

}  // namespace zero
