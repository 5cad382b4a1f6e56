#include "zero/memory/memory_policy.h"

#include <algorithm>

namespace zero {

MemoryPolicy::MemoryPolicy(std::int64_t reserve_bytes, int ranks)
    : reserve_(reserve_bytes), ranks_(std::max(ranks, 1)) {}

std::int64_t MemoryPolicy::judge(const MemoryReading& worst, double now) {
  std::int64_t free_bytes = worst.free_bytes;
  if (worst.pressure >= kStalled && now >= ignores_pressure_until_) {
    free_bytes = std::min(free_bytes, reserve_ - kLeastChange * ranks_);
    ignores_pressure_until_ = now + kPressureSeconds;
  }
  if (free_bytes < reserve_) {
    calm_steps_ = 0;
    return std::max((2 * reserve_ - free_bytes) / ranks_, kLeastChange);
  }
  const bool calm = free_bytes > 4 * reserve_ && worst.pressure <= kUndisturbed;
  calm_steps_ = calm ? calm_steps_ + 1 : 0;
  return calm_steps_ < kCalmSteps ? 0 : -(free_bytes - 3 * reserve_) / 2 / ranks_;
}

std::int64_t default_reserve(std::int64_t memory_bytes) {
  return std::clamp<std::int64_t>(memory_bytes / 16, std::int64_t{64} << 20, std::int64_t{1} << 30);
}

}  // namespace zero
