// LoadedCheckpoint: what load_checkpoint() returns beside the states that it fills. Values only.
#pragma once

#include <vector>

#include "zero/checkpoint/image/manifest.h"

namespace zero {

struct LoadedCheckpoint {
  Manifest manifest;
  std::vector<Extra> extras;  // saved by the rank (this rank % number of ranks then)
};

}  // namespace zero
