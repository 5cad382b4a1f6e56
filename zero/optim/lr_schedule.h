// lr_at(): the learning rate of each step: a warm-up, then one of the forms below. Values only.
//
//   lr_at({.kind = LrKind::kCosine, .lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000}, 0)     // 1e-3 / 101
//
// Steps are counted from 0. In warm-up (nanoGPT's formula) lr (step + 1) / (warmup + 1). After it, with
// w = (step - warmup) / (steps - warmup):
//
//   constant      lr
//   linear        min_lr + (1 - w) (lr - min_lr)
//   cosine        min_lr + (1 + cos(pi w)) / 2 (lr - min_lr)                  Loshchilov and Hutter, arXiv:1608.03983
//   polynomial    min_lr + (1 - w)^power (lr - min_lr)
//   inverse_sqrt  max(min_lr, lr sqrt(t / (t + step - warmup))), t = warmup, or 1 without one
//                                                                              Vaswani et al., arXiv:1706.03762
//   one_cycle     as cosine; its warm-up is also half a cosine, from lr / 25   Smith and Topin, arXiv:1708.07120
//   wsd           lr until the last `decay` steps, then along a line to min_lr
//                                                                              Hu et al., arXiv:2404.06395
//
// From `steps` on the rate is min_lr. Exceptions: constant stays at lr, and inverse_sqrt falls on to min_lr. Local.
#pragma once

#include <array>
#include <cstdint>

#include "zero/base/numbers/choice.h"

namespace zero {

enum class LrKind : std::uint8_t { kConstant, kLinear, kCosine, kPolynomial, kInverseSqrt, kOneCycle, kWsd };
// Words of schedule.name.
inline constexpr std::array<Choice<LrKind>, 7> kLrKinds{{{"constant", LrKind::kConstant},
                                                         {"linear", LrKind::kLinear},
                                                         {"cosine", LrKind::kCosine},
                                                         {"polynomial", LrKind::kPolynomial},
                                                         {"inverse_sqrt", LrKind::kInverseSqrt},
                                                         {"one_cycle", LrKind::kOneCycle},
                                                         {"wsd", LrKind::kWsd}}};

struct LrSchedule {
  LrKind kind = LrKind::kCosine;
  double lr = 1e-3;
  double min_lr = 1e-4;  // constant does not read it
  std::int64_t warmup = 100;
  std::int64_t steps = 2000;
  double power = 2;        // of polynomial
  std::int64_t decay = 0;  // of wsd; 0: a fifth of the steps after the warm-up
};

double lr_at(const LrSchedule& schedule, std::int64_t step);

}  // namespace zero
