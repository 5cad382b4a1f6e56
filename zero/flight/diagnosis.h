// FlightDiagnosis: the rank at fault, from the flight records of all ranks of a run.
//
//   const FlightDiagnosis found = diagnose(read_flight_folder("runs/x/flight").records);
//   found.culprits    {2}
//   found.summary     "rank 2 is behind: it last began all_gather #40 (...); the others have begun #41"
//
// In this order, the first that holds: ranks that did different things at the same number; a rank whose own record
// blames itself; ranks without a record; ranks that are behind; ranks that the others' errors name. Only the newest run
// in the records counts. Where ranks are in groups, too, each group's collectives are compared among its ranks, and who
// is behind in one group while it waits in another is behind because of others. Local, pure: the same records give the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/flight/record.h"

namespace zero {

enum class FlightTrouble {
  kNone,          // all have begun the same, and no error was met
  kDisagreement,  // other operations, units or bytes at the same number
  kOwnError,      // a rank's own record blames it: an error that is not of its peers
  kMissing,       // no record
  kBehind,        // begun, or ended, less than the others
  kBlamed,        // the errors of the others name it
  kUnclear,       // an error was met, and the records do not say whose
};

std::string_view name_of(FlightTrouble trouble);

// What one rank did last.
struct FlightStanding {
  int rank = 0;
  bool has_record = false;
  std::uint64_t begun = 0;             // collectives, of the world and all groups
  std::optional<std::int64_t> step{};  // of the program, done; where it said so
  std::string did;                     // "all_gather #41 (unit 3, 4096 bytes): waits for 2.013 s"
  std::string reason;                  // why its record was written, as it said; from outside
};

struct FlightDiagnosis {
  FlightTrouble trouble = FlightTrouble::kNone;
  std::vector<int> culprits;     // ascending; more than one when the records do not decide
  std::uint64_t collective = 0;  // where it shows; 0: none
  std::string summary;
  std::vector<FlightStanding> ranks;  // every rank of the world, but at most 64 of those without a record
  int num_missing = 0;
  std::vector<int> stale;  // ranks whose record is of an earlier run, and was not looked at
  std::string run;         // from outside
  int world = 0;
};

// `records`: of one folder, at least one; no two of the same rank.
FlightDiagnosis diagnose(const std::vector<FlightRecord>& records);

}  // namespace zero
