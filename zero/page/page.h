// run_report(), run_compare(): the verbs `zero report RUN ... -o report.html` and `zero compare RUN ...`.
//
// Both read run folders and change nothing in them. A run that is going on, or died, is shown as far as it came; a
// folder that holds no run is a ConfigError.
#pragma once

#include "zero/command/verb.h"

namespace zero::cli {

int run_report(Arguments arguments);
int run_compare(Arguments arguments);

}  // namespace zero::cli
