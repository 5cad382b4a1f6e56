#include "zero/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "zero/base/error.h"

namespace zero {

double lr_at(const LrSchedule& s, std::int64_t step) {
  if (step < s.warmup) return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup + 1);
  if (s.kind == LrKind::kConstant) return s.lr;
  if (step >= s.steps) return s.min_lr;
  // step >= warmup and step < steps, so the way down has a length.
  const double way = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  const double left = s.kind == LrKind::kLinear ? 1 - way : 0.5 * (1 + std::cos(std::numbers::pi * way));
  return s.min_lr + left * (s.lr - s.min_lr);
}

LrKind parse_lr_kind(std::string_view name) {
  if (name == "constant") return LrKind::kConstant;
  if (name == "linear") return LrKind::kLinear;
  if (name == "cosine") return LrKind::kCosine;
  throw ConfigError("schedule.name", name, "no such schedule", "use constant, linear or cosine");
}

}  // namespace zero
