// write_flights(): writes the flight records of ranks that could not write their own, because they were killed or
// stopped.
//
//   write_flights("runs/x/flight", kept, ends);     // rank-00003.json of each rank that has not written it itself
//   furthest_step(kept)                              // 40: the last step that a rank of this attempt had done
//   lost_by(0, kept)                                 // rank 1: rank 0 ended because of it
//
// The ranks' rings are in memory that the launcher holds (zero/comm/transport/record_flight.h allocates them). Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "zero/comm/flight/record.h"

#include "app/launch/failure_report.h"
#include "app/launch/held/memory_files.h"

namespace zero {

// Writes nothing after a bad configuration. Blames a rank that a signal ended, unless the launcher sent it. Skips
// records that cannot be read or written. Returns whole lines about all this for the user.
std::string write_flights(const std::filesystem::path& folder, const MemoryFiles& kept, std::span<const RankEnd> ends);

// The first rank that an error of this rank named, as its ring notes it; nothing when none does.
std::optional<FlightLoss> lost_by(int rank, const MemoryFiles& kept);

// The greatest step that any rank's ring notes (Communicator::note_step); nothing when none does. A ring that cannot be
// read notes none.
std::optional<std::int64_t> furthest_step(const MemoryFiles& kept);

}  // namespace zero
