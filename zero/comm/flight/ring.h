// FlightRing: the last collectives of one rank, in memory that another process can read after the rank has died.
//
//   FlightRing ring(memory, {.rank = 0, .world = 4});     // memory: FlightRing::bytes(capacity) zero bytes
//   const std::uint64_t number = ring.begin({.operation = FlightOperation::kBarrier});   ...   ring.end(number);
//   std::optional<FlightRecord> record = read_ring(memory);        // here, or in a process that maps the same bytes
//
// The layout is fixed and has no pointers; every field that changes is an atomic. An entry has its number in its first
// and in its last field. So a reader recognises and skips an entry that a killed rank had half written. begin() and
// end() cost a read of the clock and a cache line: no lock, no system call. Local; one thread writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "zero/comm/flight/record.h"

namespace zero {

inline constexpr std::size_t kFlightCapacity = 1024;
inline constexpr std::size_t kMostFlightCapacity = 65536;

class FlightRing {
 public:
  static std::size_t bytes(std::size_t capacity);

  // `memory`: zeroed, 64-byte aligned, with room for at least one entry; as many entries are kept as fit. It must
  // outlive the ring.
  FlightRing(std::span<std::byte> memory, const FlightIdentity& identity);

  // Returns the number of a group of ranks, for begin(); -1 if there are already kMostFlightGroups. `text` has at least
  // one byte, and is cut after kFlightGroupText bytes.
  int add_group(std::string_view text);
  // Begins an entry, and returns its number for end(), which ignores an entry that has been overwritten since. `group`:
  // 0 is the world.
  std::uint64_t begin(const FlightCall& call, int group = 0);
  void end(std::uint64_t number, bool failed = false);
  // Records the number of steps that the program has done; not negative.
  void note_step(std::int64_t steps);
  // Records an error that names another rank. The first counts.
  void note_lost(const FlightLoss& lost);
  // Records that the rank itself has written its file.
  void mark_written();

  std::span<const std::byte> memory() const { return memory_; }

 private:
  struct Header;
  struct Entry;
  friend std::optional<FlightRecord> read_ring(std::span<const std::byte> memory);

  Entry& slot(std::uint64_t number) const;

  std::span<std::byte> memory_;
  Header* header_;
  Entry* entries_;
  std::uint64_t capacity_;
  std::uint64_t begun_ = 0;
  std::array<std::uint64_t, kMostFlightGroups + 1> collectives_{};  // by group
};

// Local. Reads the record from a ring's bytes; returns nothing if no rank has made a ring there. The bytes may be
// anything, and may change meanwhile. Throws IoError (error_number() 0) if the bytes are no ring.
std::optional<FlightRecord> read_ring(std::span<const std::byte> memory);

}  // namespace zero
