#include "zero/optim/whole/factor_squares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/base/process/parallel.h"
#include "zero/optim/lanes/kernel_target.h"

namespace zero {
namespace {

struct Case {
  std::int64_t rows, columns;
};
// Blocks within rows, blocks across rows, one row, more columns than a chunk, narrow matrices, and whole tiles beside
// half tiles.
const std::vector<Case> kCases{{64, 64}, {37, 29},  {1, 500},  {3, 5000}, {20, 1024},
                               {700, 3}, {1100, 1}, {600, 16}, {21, 48},  {10, 5008}};

std::vector<float> drawn(const Case& matrix, const std::function<float(std::mt19937&)>& draw) {
  std::mt19937 random(7);
  std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (float& value : values) value = draw(random);
  return values;
}

float alike(std::mt19937& random) {
  return std::normal_distribution<float>(0, 1e-3F)(random);
}
// Neighbours differ by many powers of two, so a floating-point sum in another order has another value.
float apart(std::mt19937& random) {
  return std::exp2(std::uniform_real_distribution<float>(-20, 20)(random));
}
// The range of magnitudes needs two doubles.
float somewhat_apart(std::mt19937& random) {
  return random() % 9 == 0 ? 0 : std::exp2(std::uniform_real_distribution<float>(-14, 14)(random));
}
// The range of magnitudes exceeds two doubles.
float far_apart(std::mt19937& random) {
  return random() % 7 == 0 ? 0 : std::exp2(std::uniform_real_distribution<float>(-140, 60)(random));
}

struct Sums {
  std::vector<ExactSum> rows, columns;
  std::mutex lock;
  explicit Sums(const Case& matrix)
      : rows(static_cast<std::size_t>(matrix.rows)), columns(static_cast<std::size_t>(matrix.columns)) {}
  std::vector<double> values() const {
    std::vector<double> values;
    for (const auto* of : {&rows, &columns})
      for (const ExactSum& sum : *of) values.push_back(sum.value());
    return values;
  }
};

UpdateSpan span_of(const std::vector<float>& gradient) {
  return {.gradient = reinterpret_cast<const std::byte*>(gradient.data()), .numel = std::ssize(gradient)};
}

// The contract of factor_squares.h, element by element.
std::vector<double> plain_sums(const Case& matrix, const std::vector<float>& gradient, float scale) {
  Sums sums(matrix);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = row * matrix.columns, end = begin + matrix.columns;
    for (std::int64_t block = begin / 16 * 16; block < end; block += 16) {
      std::array<double, 16> x{};
      for (std::int64_t i = std::max(begin, block); i < std::min(end, block + 16); ++i) {
        const float g = gradient[static_cast<std::size_t>(i)] * scale;
        const float square = g * g;
        x[static_cast<std::size_t>(i - block)] = square;
        sums.columns[static_cast<std::size_t>(i - begin)].add(square);
      }
      for (const std::size_t half : {8, 4, 2, 1})
        for (std::size_t i = 0; i < half; ++i) x[i] += x[i + half];
      sums.rows[static_cast<std::size_t>(row)].add(x[0]);
    }
  }
  return sums.values();
}

// Every instruction set gives the bits of plain arithmetic.
TEST(FactorSquares, EveryInstructionSetKeepsBits) {
  for (auto* draw : {alike, somewhat_apart, apart, far_apart}) {
    for (const Case& matrix : kCases) {
      const std::vector<float> gradient = drawn(matrix, draw);
      const std::vector<double> expected = plain_sums(matrix, gradient, 0.37F);
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        Sums sums(matrix);
        add_factor_sums(span_of(gradient), 0.37F, sums.rows, sums.columns, sums.lock);
        EXPECT_EQ(sums.values(), expected) << kernel_target() << ' ' << matrix.rows << " x " << matrix.columns;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(FactorSquares, CutsAndThreadsChangeNoBit) {
  ThreadTeam team(3);
  for (auto* draw : {alike, somewhat_apart, apart, far_apart}) {
    for (const Case& matrix : kCases) {
      const std::vector<float> gradient = drawn(matrix, draw);
      const std::vector<double> expected = plain_sums(matrix, gradient, 1);
      for (const std::int64_t grain : {16, 48, 160, 4096}) {
        Sums sums(matrix);
        team.for_range(0, std::ssize(gradient), grain, [&](std::int64_t begin, std::int64_t end) {
          add_factor_sums(span_of(gradient).part(begin, end - begin), 1, sums.rows, sums.columns, sums.lock);
        });
        EXPECT_EQ(sums.values(), expected) << matrix.rows << " x " << matrix.columns << " by " << grain;
      }
    }
  }
}

// The magnitude changes from one tile to the next.
TEST(FactorSquares, AreExactWhereTheirMagnitudesChange) {
  const Case matrix{48, 96};
  std::vector<float> gradient = drawn(matrix, alike);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= std::exp2(static_cast<float>(i / 640 * 5 % 60) - 30);
  const std::vector<double> expected = plain_sums(matrix, gradient, 1);
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    Sums sums(matrix);
    add_factor_sums(span_of(gradient), 1, sums.rows, sums.columns, sums.lock);
    EXPECT_EQ(sums.values(), expected) << kernel_target();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(FactorSquares, TakeGradientsOfAnyType) {
  const Case matrix{33, 40};
  const std::vector<float> values = drawn(matrix, alike);
  std::vector<BFloat16Bits> low;
  std::vector<float> wide;
  for (const float value : values) {
    low.push_back(to_bfloat16(value));
    wide.push_back(to_float(low.back()));
  }
  Sums sums(matrix);
  add_factor_sums({.gradient = reinterpret_cast<const std::byte*>(low.data()),
                   .gradient_dtype = DType::kBFloat16,
                   .numel = std::ssize(low)},
                  2, sums.rows, sums.columns, sums.lock);
  EXPECT_EQ(sums.values(), plain_sums(matrix, wide, 2));
}

// A value that is not finite spoils only its own row and its own column.
TEST(FactorSquares, NonFiniteSpoilsRowAndColumn) {
  const Case matrix{40, 48};
  for (const float bad : {std::numeric_limits<float>::infinity(), 1e30F, std::nanf("")}) {
    std::vector<float> gradient = drawn(matrix, alike);
    gradient[5 * 48 + 7] = bad;
    Sums sums(matrix);
    add_factor_sums(span_of(gradient), 1, sums.rows, sums.columns, sums.lock);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(std::isfinite(sums.rows[i].value()), i != 5) << bad << " row " << i;
    for (std::size_t i = 0; i < 48; ++i)
      EXPECT_EQ(std::isfinite(sums.columns[i].value()), i != 7) << bad << " column " << i;
  }
}

}  // namespace
}  // namespace zero
