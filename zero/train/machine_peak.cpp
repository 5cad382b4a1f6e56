#include "zero/train/machine_peak.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "zero/base/clock.h"
#include "zero/base/parallel.h"
#include "zero/optim/newton_schulz.h"

namespace zero {
namespace {

// The least time of some runs, after a dry one.
template <typename Run>
double best_seconds(int tries, Run run) {
  run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    const double begin = monotonic_seconds();
    run();
    best = std::min(best, monotonic_seconds() - begin);
  }
  return best;
}

}  // namespace

double probe_matmul_flops(c10::Device place) {
  const std::int64_t size = place.is_cuda() ? 4096 : 512;
  const at::NoGradGuard no_grad;
  const auto a = at::ones({size, size}, at::TensorOptions(place));
  auto product = at::empty({size, size}, at::TensorOptions(place));
  const double seconds = best_seconds(5, [&] {
    at::mm_out(product, a, a);
    if (place.is_cuda()) product[0][0].item();  // it is only queued
  });
  return 2.0 * static_cast<double>(size * size * size) / seconds;
}

double probe_newton_schulz_flops(int threads) {
  constexpr std::int64_t kRows = 256, kColumns = 1024;
  std::vector<float> matrix(kRows * kColumns);
  std::vector<float> workspace(static_cast<std::size_t>(newton_schulz_numel(kRows, kColumns)));
  ThreadTeam team(threads);
  const double seconds = best_seconds(3, [&] {
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 97) - 48.0F;
    newton_schulz({}, matrix.data(), kRows, kColumns, workspace, team);
  });
  return newton_schulz_flops(kRows, kColumns) / seconds;
}

}  // namespace zero
