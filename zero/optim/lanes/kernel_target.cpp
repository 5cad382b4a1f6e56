#include "zero/optim/lanes/kernel_target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace zero {

// The best target is first, and a dispatch takes it. There may be none: Highway 1.0 counts NEON only if the CPU also
// has AES, which the CPU of a Raspberry Pi 4 lacks. A dispatch then uses the compiler's static target.
std::string kernel_target() {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  return hwy::TargetName(targets.empty() ? HWY_STATIC_TARGET : targets.front());
}

}  // namespace zero
