#include "zero/optim/whole/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/optim/whole/matrix_product.h"
#include "zero/optim/whole/newton_schulz_kernels.h"

namespace zero {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements per thread at a time
// Alignment of workspace sizes, and floats of a workspace that are reserved for the norm on a device.
constexpr std::int64_t kMultiple = 64;
static_assert(sizeof(MatrixNorm) <= kMultiple * sizeof(float));

// The iterations' operations on threads of the host ...
struct ByThreads {
  ThreadTeam& team;

  void divide_by_norm(float* matrix, std::int64_t numel, double least) const {
    const float divisor = norm_divisor(squares_of(matrix, numel).value(), least);
    team.for_range(0, numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) matrix[i] /= divisor;
    });
  }
  void turn(const TransposeArguments& arguments) const {
    constexpr std::int64_t kRows = 16;
    team.for_range(0, arguments.columns, kRows,
                   [&](std::int64_t begin, std::int64_t end) { transpose(arguments, begin, end); });
  }
  void make(const MatrixProduct& product) const { multiply(product, team); }
  void copy(const float* from, std::int64_t numel, float* to) const { std::copy_n(from, numel, to); }
};

// ... and on kernels of a device.
struct OnDevice {
  Device& device;
  Lane lane;
  MatrixNorm* norm;

  void divide_by_norm(float* matrix, std::int64_t numel, double least) const {
    const std::span values(matrix, static_cast<std::size_t>(numel));
    const std::span sum(&norm->squares, 1);
    const std::span divisor(&norm->divisor, 1);
    const MatrixNormArguments arguments{.values = matrix, .numel = numel, .norm = norm, .least = least};
    device.fill(lane, std::as_writable_bytes(sum), std::byte{0});
    run(device, lane, kMatrixSquares, arguments, {reads(values), changes(sum)});
    run(device, lane, kMatrixNorm, arguments, {reads(sum), writes(divisor)});
    run(device, lane, kMatrixDivide, arguments, {changes(values), reads(divisor)});
  }
  void turn(const TransposeArguments& arguments) const {
    const auto numel = static_cast<std::size_t>(arguments.rows * arguments.columns);
    run(device, lane, kMatrixTranspose, arguments,
        {reads(std::span(arguments.from, numel)), writes(std::span(arguments.to, numel))});
  }
  void make(const MatrixProduct& product) const { queue_product(device, lane, product); }
  void copy(const float* from, std::int64_t numel, float* to) const {
    const auto count = static_cast<std::size_t>(numel);
    device.copy(lane, std::as_writable_bytes(std::span(to, count)), std::as_bytes(std::span(from, count)));
  }
};

// Runs the iterations. `workspace`: without the space for the norm.
template <typename Work>
void iterate(const Work& work, const NewtonSchulzOptions& options, float* matrix, std::int64_t rows,
             std::int64_t columns, float* workspace) {
  const std::int64_t numel = rows * columns, m = std::min(rows, columns), n = std::max(rows, columns);
  float* x = matrix;
  float* other = workspace;
  float* const gram = workspace + numel;
  float* const polynomial = gram + m * m;
  work.divide_by_norm(matrix, numel, options.eps);
  if (rows > columns) {
    work.turn({.from = matrix, .rows = rows, .columns = columns, .to = other});
    std::swap(x, other);
  }
  for (int step = 0; step < options.steps; ++step) {
    const MatrixView all{x, n, 1};
    work.make(
        {.left = all, .right = all.transposed(), .out = gram, .rows = m, .columns = m, .inner = n, .symmetric = true});
    work.make({.left = {gram, m, 1},
               .right = {gram, m, 1},
               .out = polynomial,
               .rows = m,
               .columns = m,
               .inner = m,
               .scale = static_cast<float>(options.c),
               .addend = gram,
               .addend_scale = static_cast<float>(options.b),
               .symmetric = true});
    work.make({.left = {polynomial, m, 1},
               .right = all,
               .out = other,
               .rows = m,
               .columns = n,
               .inner = m,
               .addend = x,
               .addend_scale = static_cast<float>(options.a)});
    std::swap(x, other);
  }
  if (rows > columns) {
    work.turn({.from = x, .rows = m, .columns = n, .to = other});
    std::swap(x, other);
  }
  if (x != matrix) work.copy(x, numel, matrix);
}

// Returns the workspace without the space for the norm.
float* iterations_place(std::span<float> workspace, std::int64_t rows, std::int64_t columns) {
  ZERO_CHECK(std::ssize(workspace) >= newton_schulz_numel(rows, columns), "{} floats for {} x {}", workspace.size(),
             rows, columns);
  return workspace.data() + kMultiple;
}

}  // namespace

std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = std::min(rows, columns), numel = rows * columns + 2 * least * least;
  return (numel + kMultiple - 1) / kMultiple * kMultiple + kMultiple;
}

// Only half of a symmetric product is computed.
double newton_schulz_flops(std::int64_t rows, std::int64_t columns, int steps) {
  const auto m = static_cast<double>(std::min(rows, columns)), n = static_cast<double>(std::max(rows, columns));
  return steps * (3 * m * m * n + m * m * m);
}

void newton_schulz(const NewtonSchulzOptions& options, float* matrix, std::int64_t rows, std::int64_t columns,
                   std::span<float> workspace, ThreadTeam& team) {
  iterate(ByThreads{team}, options, matrix, rows, columns, iterations_place(workspace, rows, columns));
}

void queue_newton_schulz(Device& device, Lane lane, const NewtonSchulzOptions& options, float* matrix,
                         std::int64_t rows, std::int64_t columns, std::span<float> workspace) {
  auto* const norm = reinterpret_cast<MatrixNorm*>(workspace.data());
  iterate(OnDevice{device, lane, norm}, options, matrix, rows, columns, iterations_place(workspace, rows, columns));
}

}  // namespace zero
