// Flight files: the record of one rank as JSON, `rank-00003.json`, in a folder that the ranks of a run share.
//
//   write_flight("runs/x/flight", ring_bytes, {.reason = error.what(), .blamed = error.rank()});
//   FlightFolder found = read_flight_folder("runs/x/flight");
//
// A file appears whole or not at all, and replaces the rank's file of an earlier failure. It is not synced, because a
// failing rank has only a tenth of a second to write it. Only its owner can use the folder (mode 0700, files 0600).
// Files are not trusted: sizes, types and ranges are checked, and links are not followed. Local. Throws IoError.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/flight/record.h"

namespace zero {

// Writes the record in a ring's bytes, of this process or of a dead one, into the folder. Returns the file's path;
// empty if nobody has made a ring in these bytes.
std::filesystem::path write_flight(const std::filesystem::path& folder, std::span<const std::byte> ring,
                                   const FlightCause& cause);

std::string flight_json(const FlightRecord& record);
// Parses the text of a flight file. `path` is only for messages.
FlightRecord parse_flight(std::string_view text, std::string_view path);

struct FlightFolder {
  std::vector<FlightRecord> records;  // by rank
  std::vector<std::string> damaged;   // errors of the files that could not be read
};

// Reads every rank-NNNNN.json. Throws IoError only if the folder cannot be listed.
FlightFolder read_flight_folder(const std::filesystem::path& folder);

}  // namespace zero
