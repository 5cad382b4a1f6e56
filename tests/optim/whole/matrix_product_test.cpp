#include "zero/optim/whole/matrix_product.h"

#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/optim/lanes/kernel_target.h"

namespace zero {
namespace {

std::vector<float> draw(std::int64_t numel, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(numel));
  for (float& value : values) value = normal(random);
  return values;
}

// One sum for each element, with the C library's fp32 arithmetic.
std::vector<float> multiply_plain(const MatrixProduct& p) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < p.inner; ++k)
        sum = std::fma(p.left.data[i * p.left.row_stride + k * p.left.column_stride],
                       p.right.data[k * p.right.row_stride + j * p.right.column_stride], sum);
      const float scaled = p.scale * sum;
      out.push_back(p.addend == nullptr ? scaled : scaled + p.addend_scale * p.addend[i * p.columns + j]);
    }
  }
  return out;
}

std::vector<float> multiplied(MatrixProduct product, int threads) {
  ThreadTeam team(threads);
  std::vector<float> out(static_cast<std::size_t>(product.rows * product.columns), 7.0F);
  product.out = out.data();
  multiply(product, team);
  return out;
}

struct Shape {
  std::int64_t rows, columns, inner;
};
// Less than a tile, multiples of a tile, and more than a thread packs at once.
const std::vector<Shape> kShapes{{1, 1, 1}, {5, 3, 7}, {6, 32, 256}, {13, 131, 300}, {64, 260, 513}};

// All instruction sets and numbers of threads give the bits of plain arithmetic.
TEST(MatrixProductSlow, InstructionSetsAndThreadsKeepBits) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> left = draw(shape.rows * shape.inner, 1), right = draw(shape.inner * shape.columns, 2);
    const std::vector<float> addend = draw(shape.rows * shape.columns, 3);
    for (const bool turned : {false, true}) {
      const MatrixProduct product{
          .left = turned ? MatrixView{left.data(), 1, shape.rows} : MatrixView{left.data(), shape.inner, 1},
          .right = turned ? MatrixView{right.data(), shape.columns, 1} : MatrixView{right.data(), 1, shape.inner},
          .rows = shape.rows,
          .columns = shape.columns,
          .inner = shape.inner,
          .scale = turned ? 0.7F : 1.0F,
          .addend = turned ? addend.data() : nullptr,
          .addend_scale = -1.3F};
      const std::vector<float> expected = multiply_plain(product);
      for (const auto target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        for (const int threads : {1, 3})
          EXPECT_EQ(multiplied(product, threads), expected)
              << fmt::format("{} x {} x {}, {}", shape.rows, shape.inner, shape.columns, kernel_target());
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(MatrixProduct, SymmetricHalvesMatchBitForBit) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> matrix = draw(shape.rows * shape.inner, 4);
    const MatrixView view{matrix.data(), shape.inner, 1};
    MatrixProduct gram{
        .left = view, .right = view.transposed(), .rows = shape.rows, .columns = shape.rows, .inner = shape.inner};
    const std::vector<float> expected = multiplied(gram, 1);
    gram.symmetric = true;
    EXPECT_EQ(multiplied(gram, 2), expected) << shape.rows;
    const MatrixView whole{expected.data(), shape.rows, 1};
    MatrixProduct square{.left = whole,
                         .right = whole,
                         .rows = shape.rows,
                         .columns = shape.rows,
                         .inner = shape.rows,
                         .scale = 2.0315F,
                         .addend = expected.data(),
                         .addend_scale = -4.775F};
    const std::vector<float> expected_square = multiplied(square, 1);
    square.symmetric = true;
    EXPECT_EQ(multiplied(square, 3), expected_square) << shape.rows;
  }
}

}  // namespace
}  // namespace zero
