// LoadedCheckpoint: what a load gives back beside the states it fills. Values only.
#pragma once

#include <vector>

#include "zero/checkpoint/extra.h"
#include "zero/checkpoint/manifest.h"

namespace zero {

struct LoadedCheckpoint {
  Manifest manifest;
  std::vector<Extra> extras;  // those that rank (this rank % ranks then) saved
};

}  // namespace zero
