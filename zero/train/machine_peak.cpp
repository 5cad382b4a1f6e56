#include "zero/train/machine_peak.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

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

double probe_matmul_flops(c10::Device place, c10::ScalarType type) {
  const std::int64_t size = place.is_cuda() ? 4096 : 512;
  const int products = place.is_cuda() ? 8 : 1;  // which are only queued: the host waits for the last
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions(place).dtype(type);
  // Not all alike: a GPU is faster where its wires do not change.
  const at::Tensor a =
      at::arange(size * size, at::TensorOptions(place)).remainder(97).sub(48).reshape({size, size}).to(type);
  at::Tensor product = at::empty({size, size}, options);
  const double seconds = best_seconds(5, [&] {
    for (int i = 0; i < products; ++i) at::mm_out(product, a, a);
    if (place.is_cuda()) product[0][0].item();
  });
  return 2.0 * products * static_cast<double>(size * size * size) / seconds;
}

double probe_newton_schulz_seconds(std::int64_t rows, std::int64_t columns, int threads) {
  constexpr double kMostFlops = 3e10, kSmallFlops = 1e9;
  const double flops = newton_schulz_flops(rows, columns);
  // A half keeps what rows that are a power of two apart do to caches.
  while (newton_schulz_flops(rows, columns) > kMostFlops && std::min(rows, columns) > 1) rows /= 2, columns /= 2;
  const double probed_flops = newton_schulz_flops(rows, columns);
  std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
  std::vector<float> workspace(static_cast<std::size_t>(newton_schulz_numel(rows, columns)));
  ThreadTeam team(threads);
  const double seconds = best_seconds(probed_flops < kSmallFlops ? 5 : 2, [&] {
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 97) - 48.0F;
    newton_schulz({}, matrix.data(), rows, columns, workspace, team);
  });
  return seconds * flops / probed_flops;
}

}  // namespace zero
