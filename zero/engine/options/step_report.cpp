#include "zero/engine/options/step_report.h"

namespace zero {

std::string_view name_of(SkipReason reason) {
  switch (reason) {
    case SkipReason::kNone:
      return "";
    case SkipReason::kOverflow:
      return "overflow";
    case SkipReason::kNonFinite:
      return "not finite";
    case SkipReason::kLossSpike:
      return "loss spike";
    case SkipReason::kNormSpike:
      return "norm spike";
  }
  return "";
}

}  // namespace zero
