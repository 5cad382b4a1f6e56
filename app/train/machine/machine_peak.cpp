#include "app/train/machine/machine_peak.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "zero/base/process/clock.h"
#include "zero/base/process/parallel.h"

namespace zero {
namespace {

// Returns the least time of `tries` runs, after a warm-up run.
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
  const int products = place.is_cuda() ? 8 : 1;  // on a GPU they are queued, and the host waits for the last
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions(place).dtype(type);
  // The values differ, because a GPU is faster if its wires do not change.
  const at::Tensor a =
      at::arange(size * size, at::TensorOptions(place)).remainder(97).sub(48).reshape({size, size}).to(type);
  at::Tensor product = at::empty({size, size}, options);
  const double seconds = best_seconds(5, [&] {
    for (int i = 0; i < products; ++i) at::mm_out(product, a, a);
    if (place.is_cuda()) product[0][0].item();
  });
  return 2.0 * products * static_cast<double>(size * size * size) / seconds;
}

double probe_completion_seconds(const MatrixRule& rule, const MatrixShape& matrix, int threads) {
  constexpr double kMostFlops = 3e10, kSmallFlops = 1e9;
  // Halving keeps the effect on caches of rows that are a power of two apart.
  MatrixShape probed = matrix;
  while (rule.completion_flops(probed) > kMostFlops && std::min(probed.rows, probed.columns) > 1)
    probed = {probed.rows / 2, probed.columns / 2};
  const double flops = rule.completion_flops(probed);
  std::vector<float> directions(static_cast<std::size_t>(probed.rows * probed.columns));
  std::vector<float> workspace(static_cast<std::size_t>(rule.workspace_numel(probed)));
  ThreadTeam team(threads);
  const double seconds = best_seconds(flops < kSmallFlops ? 5 : 2, [&] {
    for (std::size_t i = 0; i < directions.size(); ++i) directions[i] = static_cast<float>(i % 97) - 48.0F;
    rule.complete(directions.data(), probed, workspace, team);
  });
  return probed.rows == matrix.rows ? seconds : seconds * rule.completion_flops(matrix) / flops;
}

}  // namespace zero
