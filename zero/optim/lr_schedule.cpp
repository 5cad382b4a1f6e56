#include "zero/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zero {
namespace {

constexpr double kOneCycleStart = 1.0 / 25;  // of lr

double half_cosine(double way) {  // from 1 down to 0
  return 0.5 * (1 + std::cos(std::numbers::pi * way));
}

double warming_up(const LrSchedule& s, std::int64_t step) {
  const double way = static_cast<double>(step + 1) / static_cast<double>(s.warmup + 1);
  if (s.kind == LrKind::kOneCycle) return s.lr * (1 - half_cosine(way) * (1 - kOneCycleStart));
  return s.lr * way;
}

// Returns the remaining share of lr - min_lr after the share `way` of the steps that decrease it.
double left_of(const LrSchedule& s, std::int64_t step, double way) {
  switch (s.kind) {
    case LrKind::kLinear:
      return 1 - way;
    case LrKind::kCosine:
    case LrKind::kOneCycle:
      return half_cosine(way);
    case LrKind::kPolynomial:
      return std::pow(1 - way, s.power);
    case LrKind::kWsd: {
      const std::int64_t after = s.steps - s.warmup;
      const std::int64_t decay = std::clamp<std::int64_t>(s.decay > 0 ? s.decay : after / 5, 1, after);
      return std::min(1.0, static_cast<double>(s.steps - step) / static_cast<double>(decay));
    }
    case LrKind::kConstant:
    case LrKind::kInverseSqrt:
      break;
  }
  return 1;
}

}  // namespace

double lr_at(const LrSchedule& s, std::int64_t step) {
  if (step < s.warmup) return warming_up(s, step);
  if (s.kind == LrKind::kConstant) return s.lr;
  if (s.kind == LrKind::kInverseSqrt) {
    const auto scale = static_cast<double>(std::max<std::int64_t>(1, s.warmup));
    return std::max(s.min_lr, s.lr * std::sqrt(scale / (scale + static_cast<double>(step - s.warmup))));
  }
  if (step >= s.steps) return s.min_lr;
  // step >= warmup and step < steps, so the way down has a length.
  const double way = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  return s.min_lr + left_of(s, step, way) * (s.lr - s.min_lr);
}

}  // namespace zero
