#include "zero/optim/newton_schulz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "zero/base/check.h"
#include "zero/base/exact_sum.h"
#include "zero/optim/matrix_product.h"

namespace zero {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements a thread takes at a time

// In one fixed order, whoever computes it.
double norm_of(const float* matrix, std::int64_t numel) {
  double sum = 0;
  std::int64_t i = 0;
  for (; i + kSumBlock <= numel; i += kSumBlock) sum += block_sum_of_squares(matrix + i);
  std::array<float, kSumBlock> rest{};
  std::copy(matrix + i, matrix + numel, rest.begin());
  return std::sqrt(sum + block_sum_of_squares(rest.data()));
}

void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to, ThreadTeam& team) {
  constexpr std::int64_t kRows = 16;
  team.for_range(0, columns, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = begin; j < end; ++j) to[j * rows + i] = from[i * columns + j];
    }
  });
}

}  // namespace

std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = std::min(rows, columns);
  return rows * columns + 2 * least * least;
}

// Products of symmetric matrices are half computed.
double newton_schulz_flops(std::int64_t rows, std::int64_t columns, int steps) {
  const auto m = static_cast<double>(std::min(rows, columns)), n = static_cast<double>(std::max(rows, columns));
  return steps * (3 * m * m * n + m * m * m);
}

void newton_schulz(const NewtonSchulzOptions& options, float* matrix, std::int64_t rows, std::int64_t columns,
                   std::span<float> workspace, ThreadTeam& team) {
  ZERO_CHECK(std::ssize(workspace) >= newton_schulz_numel(rows, columns), "{} floats for {} x {}", workspace.size(),
             rows, columns);
  const std::int64_t numel = rows * columns, m = std::min(rows, columns), n = std::max(rows, columns);
  float* x = matrix;
  float* other = workspace.data();
  float* const gram = workspace.data() + numel;
  float* const polynomial = gram + m * m;
  const auto divisor = static_cast<float>(std::max(norm_of(matrix, numel), options.eps));
  team.for_range(0, numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) matrix[i] /= divisor;
  });
  if (rows > columns) {
    transpose(matrix, rows, columns, other, team);
    std::swap(x, other);
  }
  for (int step = 0; step < options.steps; ++step) {
    const MatrixView all{x, n, 1};
    multiply(
        {.left = all, .right = all.transposed(), .out = gram, .rows = m, .columns = m, .inner = n, .symmetric = true},
        team);
    multiply({.left = {gram, m, 1},
              .right = {gram, m, 1},
              .out = polynomial,
              .rows = m,
              .columns = m,
              .inner = m,
              .scale = static_cast<float>(options.c),
              .addend = gram,
              .addend_scale = static_cast<float>(options.b),
              .symmetric = true},
             team);
    multiply({.left = {polynomial, m, 1},
              .right = all,
              .out = other,
              .rows = m,
              .columns = n,
              .inner = m,
              .addend = x,
              .addend_scale = static_cast<float>(options.a)},
             team);
    std::swap(x, other);
  }
  if (rows > columns) {
    transpose(x, m, n, other, team);
    std::swap(x, other);
  }
  if (x != matrix) std::copy_n(x, numel, matrix);
}

}  // namespace zero
