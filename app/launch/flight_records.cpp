#include "app/launch/flight_records.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"
#include "zero/base/process/pages.h"
#include "zero/comm/flight/file.h"
#include "zero/comm/flight/ring.h"
#include "zero/comm/launcher/records.h"

namespace zero {
namespace {

FlightCause cause_of(int rank, std::span<const RankEnd> ends) {
  for (const RankEnd& end : ends) {
    if (end.rank != rank) continue;
    if (end.ended_by_us) return {.reason = fmt::format("ended by the launcher with {}", describe(end.end))};
    return {.reason = fmt::format("ended with {}", describe(end.end)), .blamed = end.end.signal != 0 ? rank : -1};
  }
  return {};
}

// Copies a ring's bytes into memory with the alignment of a ring.
Allocation ring_in(const MemoryFiles& kept, const std::string& name) {
  const std::string bytes = read_memory_file(kept.find(name), FlightRing::bytes(kMostFlightCapacity));
  Allocation aligned = map_private(std::max(bytes.size(), FlightRing::bytes(1)));
  if (!aligned) throw IoError(name, "take memory", errno);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  return aligned;
}

}  // namespace

std::string write_flights(const std::filesystem::path& folder, const MemoryFiles& kept, std::span<const RankEnd> ends) {
  const RankEnd* const culprit = find_culprit(ends);
  if (culprit != nullptr && exit_status(*culprit) == kBadInputStatus) return "";
  std::string said;
  bool any = false;
  for (const std::string& name : kept.names(kFlightNames)) {
    try {
      const Allocation ring = ring_in(kept, name);
      const std::optional<FlightRecord> record = read_ring(ring.bytes());
      if (!record) continue;
      any = true;
      if (record->written_by_rank) continue;  // the rank's own reason is better
      write_flight(folder, ring.bytes(), cause_of(record->identity.rank, ends));
    } catch (const IoError& error) {  // the other ranks' records are still written
      said += fmt::format("zero launch: {}: no record: {}\n", name, error.what());
    }
  }
  if (any)
    said += fmt::format("zero launch: the last collectives of each rank: zero doctor --flight {}\n", folder.string());
  return said;
}

std::optional<FlightLoss> lost_by(int rank, const MemoryFiles& kept) {
  const std::string name = fmt::format("{}rank-{:05}", kFlightNames, rank);
  if (kept.find(name) < 0) return std::nullopt;
  try {
    const std::optional<FlightRecord> record = read_ring(ring_in(kept, name).bytes());
    return record ? record->lost : std::nullopt;
  } catch (const IoError&) {  // write_flights() says it
    return std::nullopt;
  }
}

std::optional<std::int64_t> furthest_step(const MemoryFiles& kept) {
  std::optional<std::int64_t> furthest;
  for (const std::string& name : kept.names(kFlightNames)) {
    try {
      const Allocation ring = ring_in(kept, name);
      const std::optional<FlightRecord> record = read_ring(ring.bytes());
      if (record && record->step) furthest = std::max(furthest.value_or(0), *record->step);
    } catch (const IoError&) {  // write_flights() reports it
    }
  }
  return furthest;
}

}  // namespace zero
