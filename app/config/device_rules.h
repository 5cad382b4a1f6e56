// check_device(): the rules of run.device, and of what a GPU cannot do yet (docs/gpu.md has the list).
//
//   check_device(loaded);                    // as a part of check_rules(): where a GPU is named
//   require_works_on_gpu(loaded);            // where "auto" has turned out to be one
//
// Local. Throws ConfigError that names the key to change, where it was given, and what to do.
#pragma once

#include "app/config/config.h"

namespace zero {

void check_device(const LoadedConfig& loaded);

void require_works_on_gpu(const LoadedConfig& loaded);

}  // namespace zero
