// run_inspect(): `zero inspect FILE` prints the contents of a file, a run folder or a checkpoint.
//
//   const std::vector<std::string> arguments{"runs/x", "--verify"};
//   return run_inspect(arguments);
//
// Local. Throws as verbs do (verb.h).
#pragma once

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_inspect(Arguments arguments);

}  // namespace zero::cli
