// run_doctor(): `zero doctor` checks this machine for zero.cpp, or names the rank at fault of a failed run.
//
//   const std::vector<std::string> arguments{"--json"};
//   return run_doctor(arguments);
//
// Local. Throws as verbs do (verb.h).
#pragma once

#include <filesystem>

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_doctor(Arguments arguments);

// report_flight(): `zero doctor --flight DIR` prints the rank at fault, and the last collective of every rank.
//
//   rank 2 is behind: others have begun #41, it has begun #40 only: ...
//   RANK  STEP  BEGUN  LAST
//      0    40     41  all_gather #41 (unit 3, 4096 bytes): failed after 2.001 s
//
// Returns 0, or 2 if a file of the folder is damaged (standard error names the file). Local. Throws ConfigError for a
// folder without records.
int report_flight(const std::filesystem::path& folder, bool json);

}  // namespace zero::cli
