// write_flights(): writes the flight records of ranks that could not write their own, because they were killed or
// stopped.
//
//   write_flights("runs/x/flight", kept, ends);     // rank-00003.json of each rank that has not written it itself
//   furthest_step(kept)                              // 40: the last step that a rank of this attempt had done
//
// The ranks' rings are in memory that the launcher holds (zero/transport/record_flight.h allocates them). Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "zero/launch/failure_report.h"
#include "zero/launch/memory_files.h"

namespace zero {

// Writes nothing after a bad configuration. Blames a rank that a signal ended, unless the launcher sent it. Skips
// records that cannot be read or written. Returns whole lines about all this for the user.
std::string write_flights(const std::filesystem::path& folder, const MemoryFiles& kept, std::span<const RankEnd> ends);

// Returns the greatest step in any rank's ring (Communicator::note_step); nullopt if no ring has a step. Ignores rings
// that cannot be read.
std::optional<std::int64_t> furthest_step(const MemoryFiles& kept);

}  // namespace zero
