// Windows: PeerMemory between processes. A window is a memfd, whose descriptor every peer gets.
//
// allocate() makes a window. Before the first read from it, its descriptor is sent to every peer, over the socket that
// each pair of ranks keeps. A peer maps the window, read-only, when it first reads the window's number on the board. An
// input outside a window is first copied into an internal window, which is kept and reused (up to kSpareBytes). The
// result is the same, and slower by the copy. Windows have no names, so nothing is left behind however a process ends.
//
// If lost ranks may be replaced, a window's descriptor stays open. The new process of a rank gets it before its first
// read of the window. The new process is connected only to ranks that have called take_back().
//
// The sockets stay open: an end of file is the death of a peer. A child that a rank forked without exec also keeps them
// open; a death is then noticed at the timeout.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "zero/comm/board/peer_memory.h"
#include "zero/comm/rendezvous/host_rendezvous.h"

namespace zero {

class Windows final : public PeerMemory, private PeerReturns {
 public:
  // `most_replacements` 0: there are no replacements.
  Windows(HostRendezvous rendezvous, int rank, std::chrono::milliseconds timeout, int most_replacements = 0);

  std::string_view transport() const override { return "shared_memory"; }
  std::byte* board() override { return board_.data(); }
  // The lowest member makes the board, and sends its descriptor to the others.
  Allocation share_board(RankSet members, std::uint64_t number, std::size_t bytes) override;
  bool readable_in_place(std::span<const std::byte> in) const override { return find_window(in) != nullptr; }
  Source share(std::span<const std::byte> in) override;
  void reclaim(const Source& source) override;
  const std::byte* find(int rank, const Source& source) override;
  Allocation allocate(std::size_t bytes, Written written = Written::kWhole) override;
  void keep(Allocation memory) override { kept_.push_back(std::move(memory)); }
  RankSet dead() override;
  std::string describe(int rank) const override;
  bool is_stopped(int rank) const override { return process_state(rank) == 'T'; }

  PeerReturns* returns() override { return most_replacements_ > 0 ? this : nullptr; }

 private:
  bool is_replacement() const override { return is_replacement_; }
  int most_replacements() const override { return most_replacements_; }
  int knocking(RankSet lost) override;
  void introduce(int rank, RankSet peers) override;
  void take_back(int rank) override;
  void let_in(int rank) override;

  struct Window {
    std::uint64_t number = 0;
    Allocation memory;
    FileDescriptor file;  // closed once the peers have it, unless replacements may come
    RankSet known = 0;    // peers that have the descriptor
    bool in_use = false;  // of a window for copies
  };
  // A message over a socket. The descriptor that it carries is window `number`, the board of group `number`, or the
  // connection to rank `number`. Without bytes, it says that window `number` is gone.
  struct Notice {
    enum class Kind : std::uint64_t { kWindow, kBoard, kPeer };  // members also write into a board
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;  // bytes of the window; 0: it is gone
    Kind kind = Kind::kWindow;
  };

  // Returns the letter of the system for the state of a rank's process; 0: there is no such process.
  char process_state(int rank) const;
  std::unique_ptr<Window> make_window(std::size_t bytes, Written written = Written::kWhole);
  Window* find_window(std::span<const std::byte> in) const;
  Window& take_copy(std::size_t bytes);
  // Sends the window to each peer that does not have it.
  void announce(Window& window);
  RankSet connected() const;
  void announce_anew_to(int rank);
  // Waits while the socket is full. If the rank is gone, the next wait for it says so.
  void send(int rank, const Notice& notice, int file);
  void release(std::unique_ptr<Window> window);
  // Takes a notice that `rank` has sent. Returns false if there is none within `limit`.
  bool take_notice(int rank, std::chrono::milliseconds limit = std::chrono::milliseconds(0));
  void take_notices();

  Allocation board_;
  std::vector<UnixSocket> sockets_;
  std::optional<HostDoor> door_;  // only on rank 0
  bool is_replacement_;
  int most_replacements_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<std::uint32_t> of_sockets_;  // the replacement of its rank that each socket leads to
  std::map<int, UnixSocket> new_sockets_;  // to replacements, until take_back()
  std::uint64_t next_number_ = 1;
  std::map<const std::byte*, std::unique_ptr<Window>> windows_;  // by address
  std::vector<std::unique_ptr<Window>> copies_;
  std::vector<std::unordered_map<std::uint64_t, Allocation>> peers_;  // windows of each peer, as mapped here
  // By the rank that made it, until share_board() takes it.
  std::map<std::pair<int, std::uint64_t>, Allocation> group_boards_;
  std::vector<Allocation> kept_;  // released first, because that needs all of the above
};

}  // namespace zero
