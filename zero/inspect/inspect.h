// `zero inspect`: says what a file or a run folder contains.
#pragma once

#include "zero/command/verb.h"

namespace zero::cli {

int run_inspect(Arguments arguments);

}  // namespace zero::cli
