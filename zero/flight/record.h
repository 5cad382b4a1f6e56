// FlightRecord: the last collectives of one rank as plain values, to be written on trouble, read and compared.
//
//   FlightRecord record = *read_ring(memory);         // zero/flight/ring.h: of this rank, or of one that is gone
//   record.entries.back().call.operation              // what it began last
//
// Every rank numbers its collectives from 1, in the world and again in each group of ranks; ranks at the same number
// must mean the same thing. Messages between two ranks have no such number. Times are nanoseconds since 1970, so that ranks of one machine can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

inline constexpr int kMostFlightRanks = 1 << 16;
inline constexpr int kMostFlightGroups = 31;
inline constexpr std::size_t kFlightGroupText = 95;  // bytes

enum class FlightOperation : std::uint32_t {
  kAllGather = 1,
  kAllToAll,
  kReduceScatter,
  kBroadcast,
  kBarrier,
  kSend,
  kReceive,
};

// Local. "all_gather"; "unknown" for a number that is none of them.
std::string_view name_of(FlightOperation operation);
// Between two ranks.
bool is_message(FlightOperation operation);
std::optional<FlightOperation> find_flight_operation(std::string_view name);

// What ranks at the same number must agree on.
struct FlightCall {
  FlightOperation operation = FlightOperation::kBarrier;
  std::int32_t unit = -1;
  std::uint64_t bytes = 0;  // of the input, or of the message
  std::int32_t peer = -1;   // root of a broadcast, or the other rank of a message

  bool operator==(const FlightCall&) const = default;
};

struct FlightEntry {
  std::uint64_t number = 0;      // among everything this rank began, from 1
  std::uint64_t collective = 0;  // among its collectives in the world or in the group, from 1; 0: a message
  int group = 0;                 // 0: the world; n: the n-th group of its record
  FlightCall call;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;  // 0: not yet
  bool failed = false;
};

struct FlightIdentity {
  int rank = 0;
  int world = 1;
  std::string run;  // the same for all ranks of a run; at most 63 bytes are kept
  int restart = 0;
  std::string host;  // at most 63 bytes are kept
  std::int64_t process = 0;
};

// Why a record was written. `blamed`: the rank at fault as far as the writer knows, itself included; -1: not known.
struct FlightCause {
  std::string reason;  // empty: no trouble
  int blamed = -1;
  // How long this rank had been waiting for others when its error came: one that waited long is a witness.
  std::int64_t waited_ns = 0;
};

// Another rank that this rank's error names. `left`: that rank left the run by itself, and its process ends or has ended.
struct FlightLoss {
  int rank = 0;
  bool left = false;
  bool operator==(const FlightLoss&) const = default;
};

struct FlightRecord {
  FlightIdentity identity;
  std::int64_t started_ns = 0;       // when recording began
  std::int64_t written_ns = 0;       // when the record was taken
  std::uint64_t num_unreadable = 0;  // entries that were being written, or are damaged
  bool written_by_rank = false;      // the rank itself has written its file already
  std::optional<std::int64_t> step;  // of the program, the last that it said it had done
  std::optional<FlightLoss> lost;    // the first error of this rank that names another one
  FlightCause cause;
  std::vector<std::string> groups;   // "copy 1 (ranks 2, 3)": the same text on all ranks of a group
  std::vector<FlightEntry> entries;  // the oldest first

  // "" for the world.
  std::string_view group_of(const FlightEntry& entry) const;
};

// Local. "all_gather #17 (unit 3, 4096 bytes)", "send to rank 2 (4096 bytes)".
std::string describe(const FlightEntry& entry);
// The same of a record's entry, with its group: "barrier #2 of group copy 1 (ranks 2, 3)".
std::string describe(const FlightEntry& entry, const FlightRecord& record);

}  // namespace zero
