// Windows: PeerMemory between processes. A window is a memfd, and each peer gets its descriptor.
//
// allocate() makes a window. The first time one is read from, its descriptor goes to every peer over the socket that
// each pair of ranks keeps; a peer maps it, read-only, when it first meets the window's number on the board. An input
// outside a window is copied into one of our own first (kept and used again, up to kSpareBytes): correct, and slower
// by the copy. No names are involved: nothing is left behind, however a process ends.
//
// Where replacements of lost ranks may come, a window's descriptor stays open: a new process gets it the first time it is to
// read from there. Its own connections are to the ranks that took it back alone.
//
// The sockets stay open: an end of file is the death of a peer. (A child that a rank forked without exec keeps them
// open, too; such a death is noticed at the timeout.)
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "zero/comm/peer_memory.h"
#include "zero/rendezvous/host_rendezvous.h"

namespace zero {

class Windows final : public PeerMemory {
 public:
  // `most_replacements`: 0: none comes.
  Windows(HostRendezvous rendezvous, int rank, std::chrono::milliseconds timeout, int most_replacements = 0);

  std::string_view transport() const override { return "shared_memory"; }
  std::byte* board() override { return board_.data(); }
  // The lowest member makes it, and sends its descriptor to the others.
  Allocation share_board(RankSet members, std::uint64_t number, std::size_t bytes) override;
  bool readable_in_place(std::span<const std::byte> in) const override { return find_window(in) != nullptr; }
  Source share(std::span<const std::byte> in) override;
  void reclaim(const Source& source) override;
  const std::byte* find(int rank, const Source& source) override;
  Allocation allocate(std::size_t bytes, Written written = Written::kWhole) override;
  void keep(Allocation memory) override { kept_.push_back(std::move(memory)); }
  RankSet dead() override;
  std::string describe(int rank) const override;

  bool is_replacement() const override { return is_replacement_; }
  int most_replacements() const override { return most_replacements_; }
  int knocking(RankSet lost) override;
  void introduce(int rank, RankSet peers) override;
  void take_back(int rank) override;
  void let_in(int rank) override;

 private:
  struct Window {
    std::uint64_t number = 0;
    Allocation memory;
    FileDescriptor file;  // closed once the peers have it, unless others may come
    RankSet known = 0;    // to these peers
    bool in_use = false;  // of a copy
  };
  // What travels over a socket: "window (or board of group) `number` is the descriptor that comes with this", "is no
  // more", or "the descriptor is your connection to rank `number`".
  struct Notice {
    enum class Kind : std::uint64_t { kWindow, kBoard, kPeer };  // a board is one which others write into, too
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;  // of a window, 0: no more
    Kind kind = Kind::kWindow;
  };

  std::unique_ptr<Window> make_window(std::size_t bytes, Written written = Written::kWhole);
  Window* find_window(std::span<const std::byte> in) const;
  Window& take_copy(std::size_t bytes);
  // To each peer that does not know it.
  void announce(Window& window);
  RankSet connected() const;
  void announce_anew_to(int rank);
  // Waits where the socket is full. Of a rank that is gone the next wait for it says so.
  void send(int rank, const Notice& notice, int file);
  void release(std::unique_ptr<Window> window);
  // Takes what peers have announced. False when `rank` has nothing for us in this time.
  bool take_notice(int rank, std::chrono::milliseconds limit = std::chrono::milliseconds(0));
  void take_notices();

  Allocation board_;
  std::vector<UnixSocket> sockets_;
  std::optional<HostDoor> door_;  // rank 0's
  bool is_replacement_;
  int most_replacements_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<std::uint32_t> of_sockets_;  // which replacement of its rank each leads to
  std::map<int, UnixSocket> new_sockets_;  // to replacements, until they are taken back
  std::uint64_t next_number_ = 1;
  std::map<const std::byte*, std::unique_ptr<Window>> windows_;  // by address
  std::vector<std::unique_ptr<Window>> copies_;
  std::vector<std::unordered_map<std::uint64_t, Allocation>> peers_;  // their windows, as mapped here
  std::map<std::pair<int, std::uint64_t>, Allocation> group_boards_;  // by the rank that made it, until it is asked for
  std::vector<Allocation> kept_;                                      // released first: that needs all of the above
};

}  // namespace zero
