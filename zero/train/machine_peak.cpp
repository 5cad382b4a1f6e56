#include "zero/train/machine_peak.h"

#include <algorithm>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "zero/base/clock.h"

namespace zero {

double probe_matmul_flops() {
  constexpr std::int64_t kSize = 512;
  constexpr int kTries = 5;
  const at::NoGradGuard no_grad;
  const auto a = at::ones({kSize, kSize});
  auto product = at::empty({kSize, kSize});
  at::mm_out(product, a, a);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const double begin = monotonic_seconds();
    at::mm_out(product, a, a);
    best = std::min(best, monotonic_seconds() - begin);
  }
  return 2.0 * kSize * kSize * kSize / best;
}

}  // namespace zero
