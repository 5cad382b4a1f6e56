// Flight files: the record of one rank as JSON, `rank-00003.json`, in a folder that the ranks of a run share.
//
//   write_flight("runs/x/flight", ring_bytes, {.reason = error.what(), .blamed = error.rank()});
//   FlightFolder found = read_flight_folder("runs/x/flight");
//
// A file appears whole or not at all, and replaces that rank's file of earlier trouble; it is not synced, because a
// rank that writes it has a tenth of a second. The folder is made for its owner alone (0700, files 0600). Files are
// not trusted: sizes, types and ranges are checked, and links are not followed. Local. Throws IoError.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/flight/record.h"

namespace zero {

// The record in a ring's bytes, of this process or of one that is gone, into the folder. The file's path; empty when no
// ring was ever made in these bytes.
std::filesystem::path write_flight(const std::filesystem::path& folder, std::span<const std::byte> ring,
                                   const FlightCause& cause);

std::string flight_json(const FlightRecord& record);
// `path` is for messages.
FlightRecord parse_flight(std::string_view text, std::string_view path);

struct FlightFolder {
  std::vector<FlightRecord> records;  // by rank
  std::vector<std::string> damaged;   // what is wrong with the files that could not be read
};

// Every rank-NNNNN.json. Throws IoError only for a folder that cannot be listed.
FlightFolder read_flight_folder(const std::filesystem::path& folder);

}  // namespace zero
