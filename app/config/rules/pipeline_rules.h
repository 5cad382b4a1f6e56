// check_pipeline(): the rules of [parallel], and of features that do not work with a pipeline yet.
//
//   check_pipeline(loaded);                              // called by check_rules()
//   require_divides(config, /*world=*/4, key);  // called by fit_to_world(), before train.accumulate is settled
//   require_passes(config);                              // and after
//
// docs/guide/pipeline.md has the same list as a table. Local. Throws ConfigError with the key to change, its origin,
// and what to do.
#pragma once

#include <cstdint>
#include <string_view>

#include "app/config/options/config.h"

namespace zero {

// No-op without a pipeline, except for keys that would have no effect.
void check_pipeline(const LoadedConfig& loaded);

// Throws under `key` if the pipeline's ranks do not divide the world.
void require_divides(const Config& config, std::int64_t world, std::string_view key);

// Throws under "parallel.sections", "parallel.cut" or "train.accumulate" if the order of passes cannot use their
// numbers. If the order is auto and no order can use them, the key is "parallel.schedule".
void require_passes(const Config& config);

}  // namespace zero
