// A GPU's matrix products and Newton-Schulz iterations, with fibers for threads, have the host's bits.
#include "tests/cuda/host_grid.h"
// After host_grid.h.
#include <gtest/gtest.h>

#include "zero/device/host_device.h"
#include "zero/optim/whole/newton_schulz.h"

#include "plugins/cuda/matrix_kernels.cuh"
#include "tests/cuda/random_matrix.h"
#include "tests/support/forwarded_device.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using namespace bodies;

class MatrixKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (built::kSanitized) GTEST_SKIP() << "sanitizers do not know fibers";
  }
};

void multiply_by_fibers(const MatrixProduct& product, bool large, std::uint64_t seed) {
  const int parts = large ? 2 : 1;
  const auto squares = static_cast<unsigned>(num_product_squares(product, kQuarter * parts));
  run_grid({.blocks = squares, .threads = kThreads, .seed = seed},
           [&] { large ? matrix_product_kernel<2>(product) : matrix_product_kernel<1>(product); });
}

// Main memory as a device whose kernels run in fibers.
class FiberDevice final : public ForwardedDevice {
 public:
  FiberDevice() : ForwardedDevice(HostDevice::instance()) {}
  void run(Lane lane, const KernelCall& call) override {
    const std::string_view name = call.kernel.name;
    const HostGrid some{.blocks = 3, .threads = kThreads, .seed = ++seed_};
    const auto& product = *reinterpret_cast<const MatrixProduct*>(call.arguments.data());
    const auto& norm = *reinterpret_cast<const MatrixNormArguments*>(call.arguments.data());
    const auto& turned = *reinterpret_cast<const TransposeArguments*>(call.arguments.data());
    if (name == "matrix_product") {
      multiply_by_fibers(product, seed_ % 2 == 0, seed_);
    } else if (name == "matrix_squares") {
      run_grid(some, [&] { matrix_squares_kernel(norm); });
    } else if (name == "matrix_norm") {
      run_grid({.threads = 1, .seed = seed_}, [&] { matrix_norm_kernel(norm); });
    } else if (name == "matrix_divide") {
      run_grid(some, [&] { matrix_divide_kernel(norm); });
    } else if (name == "matrix_transpose") {
      run_grid(some, [&] { matrix_transpose_kernel(turned); });
    } else {
      ForwardedDevice::run(lane, call);
      ADD_FAILURE() << name << " ran on the host";
    }
  }

 private:
  std::uint64_t seed_ = 0;
};

// Shapes below a square, its multiples, and slightly more. Sums have fewer terms than one load, exactly as many, or
// more.
struct ProductShape {
  std::int64_t rows, columns, inner;
};
constexpr std::array kProductShapes{ProductShape{1, 1, 1},   ProductShape{5, 3, 7},    ProductShape{64, 64, 8},
                                    ProductShape{65, 1, 17}, ProductShape{1, 130, 40}, ProductShape{128, 128, 24},
                                    ProductShape{70, 129, 9}};

TEST_F(MatrixKernels, ProductMatchesHostBits) {
  Random random(91);
  for (const ProductShape& shape : kProductShapes) {
    for (const int special_in : {0, 60}) {
      const RandomProduct drawn_one(random, shape.rows, shape.columns, shape.inner, special_in);
      for (const bool large : {false, true}) {
        RandomProduct expected = drawn_one, actual = drawn_one;
        multiply_on_host(expected.product());
        multiply_by_fibers(actual.product(), large, random());
        ASSERT_TRUE(same_values(actual.out, expected.out))
            << shape.rows << " x " << shape.columns << " x " << shape.inner << ", " << special_in;
      }
    }
  }
}

// With the host's bits.
TEST_F(MatrixKernels, SymmetricProductComputesHalf) {
  Random random(92);
  for (const std::int64_t rows : {1, 5, 64, 66, 129, 200}) {
    for (const std::int64_t inner : {3, 33}) {
      for (const bool large : {false, true}) {
        const Elements<float> matrix = random_floats(random, static_cast<std::size_t>(rows * inner), 0);
        Elements<float> expected(random, static_cast<std::size_t>(rows * rows)), actual = expected;
        const MatrixView view{matrix.data(), inner, 1};
        MatrixProduct gram{.left = view,
                           .right = view.transposed(),
                           .out = expected.data(),
                           .rows = rows,
                           .columns = rows,
                           .inner = inner,
                           .symmetric = true};
        multiply_on_host(gram);
        gram.out = actual.data();
        multiply_by_fibers(gram, large, random());
        ASSERT_TRUE(same_values(actual, expected)) << rows << " x " << inner;
        const MatrixView whole{expected.data(), rows, 1};
        Elements<float> expected_square(random, expected.size()), actual_square = expected_square;
        MatrixProduct square{.left = whole,
                             .right = whole,
                             .out = expected_square.data(),
                             .rows = rows,
                             .columns = rows,
                             .inner = rows,
                             .scale = 2.0315F,
                             .addend = expected.data(),
                             .addend_scale = -4.775F,
                             .symmetric = true};
        multiply_on_host(square);
        square.out = actual_square.data();
        multiply_by_fibers(square, large, random());
        ASSERT_TRUE(same_values(actual_square, expected_square)) << rows << " x " << inner;
      }
    }
  }
}

// Terms that round to -0 still change the sign of a zero sum.
TEST_F(MatrixKernels, ZeroSumKeepsItsSign) {
  const std::array<float, 3> left{-1e-30F, -1e-30F, -1e-30F}, right{1e-30F, 1e-30F, 1e-30F};
  float out = 1;
  multiply_by_fibers(
      {.left = {left.data(), 3, 1}, .right = {right.data(), 1, 1}, .out = &out, .rows = 1, .columns = 1, .inner = 3},
      false, 1);
  EXPECT_EQ(out, 0.0F);
  EXPECT_TRUE(std::signbit(out));
}

TEST_F(MatrixKernels, NormAndDivisionMatchHostBits) {
  Random random(93);
  for (const std::int64_t numel : {1, 15, 16, 17, 2048, 5000}) {
    for (const int special_in : {0, 8, 500}) {
      Elements<float> expected = random_floats(random, static_cast<std::size_t>(numel), special_in), actual = expected;
      MatrixNorm of_host, of_kernel;
      MatrixNormArguments arguments{.values = expected.data(), .numel = numel, .norm = &of_host, .least = 1e-7};
      for (const Kernel* const kernel : {&kMatrixSquares, &kMatrixNorm, &kMatrixDivide}) kernel->host(&arguments);
      arguments.values = actual.data();
      arguments.norm = &of_kernel;
      const HostGrid grid{.blocks = 2, .threads = kThreads, .seed = random()};
      run_grid(grid, [&] { matrix_squares_kernel(arguments); });
      run_grid({.threads = 1}, [&] { matrix_norm_kernel(arguments); });
      run_grid(grid, [&] { matrix_divide_kernel(arguments); });
      ASSERT_TRUE(same_value(of_kernel.divisor, of_host.divisor)) << numel << ", " << special_in;
      ASSERT_TRUE(same_values(actual, expected)) << numel << ", " << special_in;
    }
  }
}

TEST_F(MatrixKernels, NewtonSchulzMatchesHostBits) {
  Random random(94);
  FiberDevice device;
  constexpr std::array<std::pair<int, int>, 8> kMatrixShapes{
      {{1, 1}, {1, 40}, {40, 1}, {24, 24}, {17, 150}, {150, 17}, {5, 3}, {66, 70}}};
  for (const auto& [rows, columns] : kMatrixShapes) {
    for (const MatrixValues values : {MatrixValues::kUsual, MatrixValues::kZeros, MatrixValues::kTiny,
                                      MatrixValues::kInfinite, MatrixValues::kNaN}) {
      Elements<float> expected = random_matrix(random, rows, columns, values), actual = expected;
      const auto numel = static_cast<std::size_t>(newton_schulz_numel(rows, columns));
      ThreadTeam team(1);
      std::vector<float> workspace(numel);
      newton_schulz({}, expected.data(), rows, columns, workspace, team);
      const Allocation there = device.allocate(numel * sizeof(float));
      queue_newton_schulz(device, Lane::kUpdate, {}, actual.data(), rows, columns,
                          {reinterpret_cast<float*>(there.data()), numel});
      ASSERT_TRUE(same_values(actual, expected)) << rows << " x " << columns << ", " << static_cast<int>(values);
    }
  }
}

}  // namespace
}  // namespace zero
