// run_report(), run_compare(): the verbs `zero report RUN ... -o report.html` and `zero compare RUN ...`.
//
//   return run_report(std::move(arguments));     // `arguments`: those after the verb
//
// Both read run folders and change nothing in them. An unfinished run is shown as far as it has come. Throws
// ConfigError for a folder that holds no run.
#pragma once

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_report(Arguments arguments);
int run_compare(Arguments arguments);

}  // namespace zero::cli
