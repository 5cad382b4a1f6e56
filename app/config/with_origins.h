// with_origins(): runs what works with a configuration, and gives its refusals the place of the key that they are about.
//
//   with_origins(loaded.origins, [&] { return train(job, world); });
//       // "train.dtype = fp16: ..." becomes "config.toml:7: train.dtype = fp16: ..."
//
// Parts below `config` know keys, and not where a user gave them. A key from the command line, from no place, or that is no
// option stays as it is. Local.
#pragma once

#include <string_view>
#include <utility>

#include "zero/base/error/error.h"

#include "app/config/config.h"

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
