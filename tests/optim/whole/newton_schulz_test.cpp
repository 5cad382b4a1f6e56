#include "zero/optim/whole/newton_schulz.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zero/optim/whole/newton_schulz_kernels.h"

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

template <typename T>
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<T> values;
  T& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  const T& at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
};

Matrix<float> draw(std::int64_t rows, std::int64_t columns) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  Matrix<float> matrix{rows, columns, std::vector<float>(static_cast<std::size_t>(rows * columns))};
  for (float& value : matrix.values) value = normal(random);
  return matrix;
}

template <typename T>
Matrix<T> transposed(const Matrix<T>& m) {
  Matrix<T> out{m.columns, m.rows, std::vector<T>(m.values.size())};
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.columns; ++j) out.at(j, i) = m.at(i, j);
  return out;
}

using Real = Matrix<double>;

Real product(const Real& a, const Real& b) {
  Real out{a.rows, b.columns, std::vector<double>(static_cast<std::size_t>(a.rows * b.columns))};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) out.at(i, j) += a.at(i, k) * b.at(k, j);
  return out;
}

Real sum(double a, const Real& x, double b, const Real& y) {
  Real out = x;
  for (std::size_t i = 0; i < x.values.size(); ++i) out.values[i] = a * x.values[i] + b * y.values[i];
  return out;
}

double norm(const Real& m) {
  double squares = 0;
  for (const double value : m.values) squares += value * value;
  return std::sqrt(squares);
}

// The iterations of newton_schulz.h in double.
Real in_double(const Matrix<float>& matrix) {
  Real x{matrix.rows, matrix.columns, {matrix.values.begin(), matrix.values.end()}};
  if (x.rows > x.columns) x = transposed(x);
  x = sum(1 / norm(x), x, 0, x);
  for (int step = 0; step < 5; ++step) {
    const Real a = product(x, transposed(x));
    x = sum(3.4445, x, 1, product(sum(-4.7750, a, 2.0315, product(a, a)), x));
  }
  return matrix.rows > matrix.columns ? transposed(x) : x;
}

Matrix<float> in_float(Matrix<float> matrix, int threads = 1) {
  ThreadTeam team(threads);
  std::vector<float> workspace(static_cast<std::size_t>(newton_schulz_numel(matrix.rows, matrix.columns)));
  newton_schulz({}, matrix.values.data(), matrix.rows, matrix.columns, workspace, team);
  return matrix;
}

const std::vector<std::pair<int, int>> kShapes{{1, 1}, {1, 40}, {24, 24}, {17, 150}, {150, 17}, {5, 3}};

TEST(NewtonSchulz, AgreesWithDoubleIterations) {
  for (const auto& [rows, columns] : kShapes) {
    const Matrix<float> matrix = draw(rows, columns), ours = in_float(matrix);
    const Real expected = in_double(matrix);
    const Real seen{ours.rows, ours.columns, {ours.values.begin(), ours.values.end()}};
    EXPECT_LE(norm(sum(1, seen, -1, expected)), 1e-5 * norm(expected)) << rows << " x " << columns;
  }
}

// If all singular values are 1, the squared norm is their number.
TEST(NewtonSchulz, BringsSingularValuesNearOne) {
  for (const auto& [rows, columns] : {std::pair{17, 150}, std::pair{150, 17}}) {
    const Matrix<float> ours = in_float(draw(rows, columns));
    const Real x{ours.rows, ours.columns, {ours.values.begin(), ours.values.end()}};
    const Real gram = rows < columns ? product(x, transposed(x)) : product(transposed(x), x);
    for (std::int64_t i = 0; i < gram.rows; ++i) EXPECT_NEAR(gram.at(i, i), 1, 0.5);
    EXPECT_NEAR(norm(x) * norm(x) / 17, 1, 0.4);
  }
}

TEST(NewtonSchulz, TreatsAMatrixAsItsTranspose) {
  const Matrix<float> wide = draw(9, 70);
  // A term of the norm sums squares of neighbours in memory, so its last bit may differ for a transposed matrix.
  const Matrix<float> ours = in_float(wide), other = transposed(in_float(transposed(wide)));
  for (std::size_t i = 0; i < ours.values.size(); ++i) EXPECT_NEAR(ours.values[i], other.values[i], 1e-6);
}

TEST(NewtonSchulz, ThreadsKeepBits) {
  for (const auto& [rows, columns] : kShapes)
    EXPECT_EQ(in_float(draw(rows, columns), 3).values, in_float(draw(rows, columns)).values);
}

// The queued iterations have the same bits. The device also checks that each kernel names its accesses and that the
// workspace is large enough.
TEST(NewtonSchulz, QueuedOnDeviceKeepsBits) {
  RecordedDevice device({.late = 5});
  const auto bytes_of = [](const Allocation& memory, std::int64_t numel) {
    return memory.bytes().first(static_cast<std::size_t>(numel) * sizeof(float));
  };
  for (const auto& [rows, columns] : kShapes) {
    for (const float factor : {1.0F, 0.0F, std::numeric_limits<float>::infinity()}) {
      Matrix<float> matrix = draw(rows, columns);
      matrix.values[0] *= factor;
      const std::int64_t numel = rows * columns, workspace_numel = newton_schulz_numel(rows, columns);
      const Allocation there = device.allocate(static_cast<std::size_t>(numel) * sizeof(float));
      const Allocation workspace = device.allocate(static_cast<std::size_t>(workspace_numel) * sizeof(float));
      const Allocation beside = device.allocate_pinned(static_cast<std::size_t>(numel) * sizeof(float));
      auto* const values = reinterpret_cast<float*>(beside.data());
      std::ranges::copy(matrix.values, values);
      device.copy(Lane::kUpdate, bytes_of(there, numel), bytes_of(beside, numel));
      queue_newton_schulz(device, Lane::kUpdate, {}, reinterpret_cast<float*>(there.data()), rows, columns,
                          {reinterpret_cast<float*>(workspace.data()), static_cast<std::size_t>(workspace_numel)});
      device.copy(Lane::kUpdate, bytes_of(beside, numel), bytes_of(there, numel));
      device.join(device.mark(Lane::kUpdate));
      const Matrix<float> expected = in_float(matrix);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        const float seen = values[i], wanted = expected.values[i];
        ASSERT_TRUE(std::bit_cast<std::uint32_t>(seen) == std::bit_cast<std::uint32_t>(wanted) ||
                    (std::isnan(seen) && std::isnan(wanted)))
            << rows << " x " << columns << ", " << factor;
      }
    }
  }
}

// The squares of the norm are added exactly.
TEST(NewtonSchulz, NormIgnoresElementOrder) {
  Matrix<float> matrix = draw(3, 64);
  const double squares = squares_of(matrix.values.data(), 192).value();
  std::swap_ranges(matrix.values.begin(), matrix.values.begin() + 64, matrix.values.begin() + 128);
  EXPECT_EQ(squares_of(matrix.values.data(), 192).value(), squares);
  EXPECT_EQ(norm_divisor(16, 1e-7), 4.0F);
  EXPECT_EQ(norm_divisor(0, 1e-7), 1e-7F);
}

TEST(NewtonSchulz, LeavesZerosAndAnswersTinyMatrices) {
  Matrix<float> zeros = draw(4, 6);
  for (float& value : zeros.values) value = 0;
  EXPECT_EQ(in_float(zeros).values, zeros.values);
  Matrix<float> tiny = draw(4, 6);
  for (float& value : tiny.values) value *= 1e-20F;
  for (const float value : in_float(tiny).values) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace zero
