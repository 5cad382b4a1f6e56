#include "zero/optim/kernel_target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace zero {

// The best target comes first: it is the one that a dispatch takes. There may be none: Highway 1.0 counts NEON only
// where the CPU has AES too, which that of a Raspberry Pi 4 has not; a dispatch then takes what the compiler takes for
// granted.
std::string kernel_target() {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  return hwy::TargetName(targets.empty() ? HWY_STATIC_TARGET : targets.front());
}

}  // namespace zero
