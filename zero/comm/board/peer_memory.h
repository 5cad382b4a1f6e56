// PeerMemory: how ranks of one machine read each other's memory, and learn that a rank's process has ended.
//
// The protocol of BoardCommunicator is the same for threads and for processes. PeerMemory is the difference: threads
// share addresses, processes map windows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "zero/base/process/allocation.h"
#include "zero/comm/board/board.h"

namespace zero {

// The way back for a rank whose process was lost; the order of the calls is that of replacements.h. Local.
class PeerReturns {
 public:
  virtual ~PeerReturns() = default;
  virtual bool is_replacement() const = 0;
  virtual int most_replacements() const = 0;
  // Returns the rank of a new process that waits, of those in `lost`; -1: none.
  virtual int knocking(RankSet lost) = 0;
  virtual void introduce(int rank, RankSet peers) = 0;
  virtual void take_back(int rank) = 0;
  virtual void let_in(int rank) = 0;
};

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual std::string_view transport() const = 0;
  virtual std::byte* board() = 0;
  // Collective over `members`. Returns zero bytes that these ranks share, and no other. `number` distinguishes sets
  // with the same lowest member. Throws CommError if a member does not come.
  virtual Allocation share_board(RankSet members, std::uint64_t number, std::size_t bytes) = 0;

  // Local. Returns true if peers can read `in` in place: it must then stay unchanged until they have.
  virtual bool readable_in_place(std::span<const std::byte> in) const = 0;
  // Local. Makes `in` readable for peers, by a copy if they cannot read it in place.
  virtual Source share(std::span<const std::byte> in) = 0;
  // Local. Takes back what share() made, after its last reader.
  virtual void reclaim(const Source& source) = 0;
  // Local. Returns the address on this rank of bytes that `rank` has shared.
  virtual const std::byte* find(int rank, const Source& source) = 0;

  virtual Allocation allocate(std::size_t bytes, Written written = Written::kWhole) = 0;
  // Local. Keeps memory that a peer may still be reading although this rank has given up, until no peer can read it.
  virtual void keep(Allocation memory) = 0;

  // Local. Returns the peers whose processes have ended. Costs a system call.
  virtual RankSet dead() = 0;
  // Local. Null: a rank whose process was lost has no way back.
  virtual PeerReturns* returns() { return nullptr; }

  // Local. Describes what the system knows about a late rank: "process 4711 is stopped (SIGSTOP)"; may be empty.
  virtual std::string describe(int rank) const = 0;
  // Local. Returns true if the system knows that the rank's process is stopped. Such a rank may seem to wait.
  virtual bool is_stopped(int /*rank*/) const { return false; }
};

}  // namespace zero
