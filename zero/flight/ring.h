// FlightRing: the last collectives of one rank, in memory that another process can read when the rank is gone.
//
//   FlightRing ring(memory, {.rank = 0, .world = 4});     // memory: FlightRing::bytes(capacity) zero bytes
//   const std::uint64_t number = ring.begin({.operation = FlightOperation::kBarrier});   ...   ring.end(number);
//   std::optional<FlightRecord> record = read_ring(memory);        // here, or in a process that maps the same bytes
//
// The layout is fixed and holds no pointers; every field that changes is an atomic. An entry carries its number in
// front and behind: so a reader recognises an entry that a killed rank had half written, and leaves it out. begin()
// and end() cost a look at the clock and a cache line: no lock, no system call. Local; one thread writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "zero/flight/record.h"

namespace zero {

inline constexpr std::size_t kFlightCapacity = 1024;
inline constexpr std::size_t kMostFlightCapacity = 65536;

class FlightRing {
 public:
  static std::size_t bytes(std::size_t capacity);

  // `memory`: zeroed, 64-byte aligned, room for one entry at least; as many are kept as fit. It must outlive the ring.
  FlightRing(std::span<std::byte> memory, const FlightIdentity& identity);

  // The number by which begin() knows a group of ranks; -1 when there are kMostFlightGroups already. A text longer than
  // kFlightGroupText is cut; it holds at least one byte.
  int add_group(std::string_view text);
  // The number by which end() finds it. An entry that has been overwritten since is not touched. `group`: 0 is the
  // world.
  std::uint64_t begin(const FlightCall& call, int group = 0);
  void end(std::uint64_t number, bool failed = false);
  // `steps`: number of steps that the program has done; not negative.
  void note_step(std::int64_t steps);
  // An error that names another rank. The first counts.
  void note_lost(const FlightLoss& lost);
  // The rank has written its file itself.
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

// Local. What the ring in these bytes holds; nothing when no rank has made one there. The bytes may be anything, and
// may change meanwhile. Throws IoError (error_number() 0) for bytes that are no ring.
std::optional<FlightRecord> read_ring(std::span<const std::byte> memory);

}  // namespace zero
