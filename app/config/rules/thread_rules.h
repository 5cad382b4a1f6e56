// require_threads(): limits the compute threads of a rank by the cores of its machine.
//
//   require_threads(loaded);                 // check_files() calls it on the machine that computes
//
// The threads of an operator wait for each other. With thousands of threads on two cores, an operator takes seconds,
// and a run seems to hang. Some more threads than cores are allowed.
//
// Local. Throws ConfigError that names the cores of this machine and the most threads that are allowed.
#pragma once

#include <cstdint>

#include "app/config/options/config.h"

namespace zero {

void require_threads(const LoadedConfig& loaded);
void require_threads(const LoadedConfig& loaded, std::int64_t cores);  // cores of the machine, not of this process

}  // namespace zero
