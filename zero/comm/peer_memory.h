// PeerMemory: how ranks of one machine read each other's memory, and learn that a rank is gone.
//
// The protocol of BoardCommunicator is the same for threads and for processes. PeerMemory is the difference: threads
// share addresses, processes map windows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "zero/base/allocation.h"
#include "zero/comm/board.h"

namespace zero {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual std::string_view transport() const = 0;
  virtual std::byte* board() = 0;
  // Collective over `members`, which `number` tells from every other set of the same lowest member: zero bytes that
  // they share, and others do not. Throws CommError for a member that does not come.
  virtual Allocation share_board(RankSet members, std::uint64_t number, std::size_t bytes) = 0;

  // Local. True when peers can read `in` where it lies: it must then stay as it is until they have.
  virtual bool readable_in_place(std::span<const std::byte> in) const = 0;
  // Local. Makes `in` readable, by a copy where it cannot be read in place.
  virtual Source share(std::span<const std::byte> in) = 0;
  // Local. Nobody reads what share() made any more.
  virtual void reclaim(const Source& source) = 0;
  // Local. Where the bytes that `rank` has shared lie in this rank's addresses.
  virtual const std::byte* find(int rank, const Source& source) = 0;

  virtual Allocation allocate(std::size_t bytes, Written written = Written::kWhole) = 0;
  // Local. Memory that a peer may be reading just now although this rank has given up: kept until nobody can.
  virtual void keep(Allocation memory) = 0;

  // Local. Peers whose process has ended. Costs a system call.
  virtual RankSet dead() = 0;
  // How a rank whose process was lost comes back (replacements.h). All of it Local; by default nobody does.
  virtual bool is_replacement() const { return false; }
  virtual int most_replacements() const { return 0; }
  virtual int knocking(RankSet /*lost*/) { return -1; }
  virtual void introduce(int /*rank*/, RankSet /*peers*/) {}
  virtual void take_back(int /*rank*/) {}
  virtual void let_in(int /*rank*/) {}

  // Local. What the system knows about a late rank: "process 4711 is stopped (SIGSTOP)"; may be empty.
  virtual std::string describe(int rank) const = 0;
};

}  // namespace zero
