// run_doctor(): `zero doctor` checks this machine for zero.cpp, or names the rank at fault of a failed run.
//
//   const std::vector<std::string> arguments{"--json"};
//   return run_doctor(arguments);
//
// Local. Throws as verbs do (verb.h).
#pragma once

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_doctor(Arguments arguments);

}  // namespace zero::cli
