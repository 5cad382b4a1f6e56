// check_device(): the rules of run.device, and of features that do not work on a GPU yet (docs/gpu.md).
//
//   check_device(loaded);                    // called by check_rules()
//   require_works_on_gpu(loaded);            // called after "auto" has selected a GPU
//
// Local. Throws ConfigError with the key to change, its origin, and what to do.
#pragma once

#include "app/config/options/config.h"

namespace zero {

// Checks run.device. If it names a GPU, also calls require_works_on_gpu().
void check_device(const LoadedConfig& loaded);

// Refuses features that do not work on a GPU yet.
void require_works_on_gpu(const LoadedConfig& loaded);

}  // namespace zero
