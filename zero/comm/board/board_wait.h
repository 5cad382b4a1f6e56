// BoardWait: waits for other ranks, and finds out why a rank is missing.
//
//   wait.until_nobody([&] { return ranks_that_have_not_posted(); }, what);
//
// Sleeps on this rank's bell, and wakes every 50 ms to check whether a process has ended. Receives messages that come
// meanwhile, if the run has set a function for that (mailbox.h). Throws the CommError that every rank throws: a rank
// died (at once), left (at once), or is late (after the timeout, with its last collective).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "zero/comm/board/board.h"
#include "zero/comm/board/peer_memory.h"

namespace zero {

class BoardWait {
 public:
  // `suffix` names the group of the board; empty for the world. `receive`: function of Mailbox::while_waiting(), which
  // may change; null: none.
  BoardWait(Board& board, PeerMemory& memory, int rank, std::chrono::milliseconds timeout, std::string suffix = "",
            const std::function<bool()>* receive = nullptr);

  // Local. Returns when late() is empty. late() returns the ranks that are waited for, and loads with
  // memory_order_seq_cst.
  template <class Late>
  void until_nobody(Late&& late, const Signature& what) {
    if (board_.failed()) board_.throw_failure();
    if (late() == 0) return;
    if (spin_ && spin_until([&] { return late() == 0; })) return;
    sleep_until_nobody(late, what);
  }

  // Local. Does the same for a limited time, and throws nothing. Returns false if late() is not empty, or the run has
  // failed.
  bool try_until_nobody(const std::function<RankSet()>& late, std::chrono::milliseconds limit);

  // Local. Sleeps until ready(), which loads with memory_order_seq_cst. Returns false after `limit` (0: no limit). No
  // rank counts as late, but a death ends the run, as in every wait.
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit);

  // Local. Makes this error of an operation on this board the run's error, unless there is one already, and throws the
  // run's.
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason);

  double seconds() const { return seconds_; }

 private:
  // Receives messages that have come. Returns true if there were any.
  bool receive() const { return receive_ != nullptr && *receive_ && (*receive_)(); }
  void sleep_until_nobody(const std::function<RankSet()>& late, const Signature& what);
  void check_alive(const std::function<RankSet()>& late, const Signature& what);
  // Returns the dead ranks whose death ends the run, and marks the other dead ranks as departed. `seen`: `left` of each
  // rank, loaded before the dead ranks were determined.
  RankSet fatal(RankSet dead, std::span<const std::uint32_t> seen);
  [[noreturn]] void fail_late(RankSet late, const Signature& what);
  int first_at_fault(RankSet late) const;
  // describe_progress() names a rank's last operation; describe() also says what its process does now. The system may
  // still report a dead process as running.
  std::string describe_progress(int rank) const;
  std::string describe(int rank) const;

  Board& board_;
  PeerMemory& memory_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::string suffix_;
  const std::function<bool()>* receive_;
  bool spin_;  // true: every rank can have its own core
  double seconds_ = 0;
};

}  // namespace zero
