// require_threads(): no more compute threads of a rank than its machine can make progress with.
//
//   require_threads(loaded);                 // as a part of check_files(): on the machine that computes
//
// Threads that wait for one another need a core each: with thousands of them on two cores an operator takes seconds, and
// a run seems to hang. Some more threads than cores are allowed.
//
// Local. Throws ConfigError that names the cores of this machine and the most threads that are allowed.
#pragma once

#include <cstdint>

#include "app/config/config.h"

namespace zero {

void require_threads(const LoadedConfig& loaded);
void require_threads(const LoadedConfig& loaded, std::int64_t cores);  // of the machine: not those of this process

}  // namespace zero
