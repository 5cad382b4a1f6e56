// with_origins(): calls a function, and adds the origin of the key to its ConfigErrors.
//
//   with_origins(loaded.origins, [&] { return train(job, world); });
//       // "train.dtype = fp16: ..." becomes "config.toml:7: train.dtype = fp16: ..."
//
// Parts on lower floors know keys, but not their origins. An error about a key from the command line, a default, or a
// name that is no option is not changed. Local.
#pragma once

#include <string_view>
#include <utility>

#include "zero/base/error/error.h"

#include "app/config/options/config.h"

namespace zero {

template <typename Body>
auto with_origins(const Origins& origins, Body body) {
  try {
    return body();
  } catch (const ConfigError& error) {
    const auto origin = origins.find(error.key());
    if (origin == origins.end() || origin->second == "command line") throw;
    throw ConfigError(origin->second, "", error.what(), "");
  }
}

}  // namespace zero
