// The learning rate of each step: warm-up, then constant, linear or cosine. Values only.
//
//   lr_at({.kind = LrKind::kCosine, .lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000}, 0)     // 1e-3 / 101
//
// nanoGPT's formula. Steps are counted from 0. In warm-up lr (step + 1) / (warmup + 1); from there to `steps` down to
// min_lr, along a line or half a cosine; min_lr afterwards. Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

enum class LrKind : std::uint8_t { kConstant, kLinear, kCosine };

struct LrSchedule {
  LrKind kind = LrKind::kCosine;
  double lr = 1e-3;
  double min_lr = 1e-4;  // constant ignores it
  std::int64_t warmup = 100;
  std::int64_t steps = 2000;
};

double lr_at(const LrSchedule& schedule, std::int64_t step);

// "constant", "linear", "cosine". Throws ConfigError under "schedule.name".
LrKind parse_lr_kind(std::string_view name);

}  // namespace zero
