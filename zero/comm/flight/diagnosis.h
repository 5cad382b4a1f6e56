// FlightDiagnosis: the rank at fault, from the flight records of all ranks of a run.
//
//   const FlightDiagnosis found = diagnose(read_flight_folder("runs/x/flight").records);
//   found.culprits    {2}
//   found.summary     "rank 2 is behind: others have begun #41, it has begun #40 only: all_gather #40 (...): ended ..."
//
// The first fault of this order decides. (1) Ranks made different calls at the same number. (2) A rank's own record
// blames that rank. (3) Others wait in turn for a rank that waits for no message ("rank 0 waits for rank 1, which waits
// for rank 2"). (4) Ranks have no record. (5) Ranks are behind. (6) The errors of others name ranks. Only the newest
// run in the records counts. If there are groups, each group's collectives are also compared among its ranks. A rank
// that is behind in one group because it waits in another group is not at fault. Local, pure: the same records give the
// same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/comm/flight/record.h"

namespace zero {

enum class FlightTrouble {
  kNone,          // all have begun the same, and there was no error
  kDisagreement,  // different operations, units or bytes at the same number
  kOwnError,      // a rank's own record blames the rank: its error is not from its peers
  kMissing,       // no record
  kBehind,        // begun, or ended, fewer collectives than the others
  kBlamed,        // the others' errors name it
  kUnclear,       // there was an error, and the records do not say whose
};

std::string_view name_of(FlightTrouble trouble);

// The last activity of one rank.
struct FlightStanding {
  int rank = 0;
  bool has_record = false;
  std::uint64_t begun = 0;             // number of collectives, of the world and all groups
  std::optional<std::int64_t> step{};  // steps that the program has done, if it recorded them
  std::string did;                     // "barrier #41: begun 2.013 s before the last record, and not ended"
  std::string reason;                  // why its record was written, in its own words; not trusted
};

struct FlightDiagnosis {
  FlightTrouble trouble = FlightTrouble::kNone;
  std::vector<int> culprits;     // ascending; several if the records do not decide
  std::uint64_t collective = 0;  // the collective that shows the trouble; 0: none
  std::string summary;
  std::vector<FlightStanding> ranks;  // every rank of the world, but at most 64 ranks without a record
  int num_missing = 0;
  std::vector<int> stale;  // ranks whose record is of an earlier run, and was ignored
  std::string run;         // name of the run; not trusted
  int world = 0;
};

// `records`: of one folder, at least one, at most one for each rank.
FlightDiagnosis diagnose(const std::vector<FlightRecord>& records);

}  // namespace zero
