#include "zero/torch/attached/attached_values.h"

#include "zero/base/error/error.h"

namespace zero {

void AttachedValues::require() {
  refuse_in_child();
  role_.begin();
  if (!complete_)
    throw ConfigError("attach", "awaits_load",
                      "this engine has no complete values: no checkpoint was loaded, or a load failed",
                      "load a checkpoint first");
}

}  // namespace zero
