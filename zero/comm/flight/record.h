// FlightRecord: the last collectives of one rank as plain values, to be written on a failure, read and compared.
//
//   FlightRecord record = *read_ring(memory);         // zero/comm/flight/ring.h: of this rank, or of a dead one
//   record.entries.back().call.operation              // the operation that it began last
//
// Every rank numbers its collectives from 1, in the world and again in each group of ranks. Ranks at the same number
// must make the same call. Messages between two ranks have no such number. Times are nanoseconds since 1970, so records
// of ranks on one machine can be compared.
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

// Local. Returns "all_gather"; "unknown" for a number that is no operation.
std::string_view name_of(FlightOperation operation);
// Returns true for an operation between two ranks.
bool is_message(FlightOperation operation);
std::optional<FlightOperation> find_flight_operation(std::string_view name);

// The properties of a call on which ranks at the same number must agree.
struct FlightCall {
  FlightOperation operation = FlightOperation::kBarrier;
  std::int32_t unit = -1;
  std::uint64_t bytes = 0;  // bytes of the input, or of the message
  std::int32_t peer = -1;   // root of a broadcast, or the other rank of a message

  bool operator==(const FlightCall&) const = default;
};

struct FlightEntry {
  std::uint64_t number = 0;      // number among all operations that this rank began, from 1
  std::uint64_t collective = 0;  // number among its collectives in the world or in the group, from 1; 0: a message
  int group = 0;                 // 0: the world; n: the n-th group of its record
  FlightCall call;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;  // 0: it has not ended
  bool failed = false;
};

struct FlightIdentity {
  int rank = 0;
  int world = 1;
  std::string run;  // the same on all ranks of a run; at most 63 bytes are kept
  int restart = 0;
  std::string host;  // at most 63 bytes are kept
  std::int64_t process = 0;
};

// Why a record was written. `blamed`: the rank at fault, if the writer knows it, possibly itself; -1: unknown.
struct FlightCause {
  std::string reason;  // empty: no trouble
  int blamed = -1;
  // Time for which this rank had waited for others when its error came: a rank that waited long is a witness.
  std::int64_t waited_ns = 0;
};

// Another rank that this rank's error names. `left`: that rank left the run by itself, and its process ends or has
// ended.
struct FlightLoss {
  int rank = 0;
  bool left = false;
  bool operator==(const FlightLoss&) const = default;
};

struct FlightRecord {
  FlightIdentity identity;
  std::int64_t started_ns = 0;       // when recording began
  std::int64_t written_ns = 0;       // when the record was taken
  std::uint64_t num_unreadable = 0;  // entries that are damaged, or were just being written
  bool written_by_rank = false;      // the rank itself has already written its file
  std::optional<std::int64_t> step;  // last step that the program recorded as done
  std::optional<FlightLoss> lost;    // first error of this rank that names another rank
  FlightCause cause;
  std::vector<std::string> groups;   // "copy 1 (ranks 2, 3)": the same text on all ranks of a group
  std::vector<FlightEntry> entries;  // the oldest first

  // Returns the entry's group; "" for the world.
  std::string_view group_of(const FlightEntry& entry) const;
};

// Local. Returns "all_gather #17 (unit 3, 4096 bytes)", or "send to rank 2 (4096 bytes)".
std::string describe(const FlightEntry& entry);
// Returns the same for an entry of `record`, with its group: "barrier #2 of group copy 1 (ranks 2, 3)".
std::string describe(const FlightEntry& entry, const FlightRecord& record);

}  // namespace zero
