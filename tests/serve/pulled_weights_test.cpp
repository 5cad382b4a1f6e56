#include "zero/serve/pulled_weights.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

using Floats = std::vector<float>;

Floats some_floats(std::size_t numel, double step) {
  Floats values(numel);
  for (std::size_t i = 0; i < numel; ++i) values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return values;
}

std::vector<std::byte> as_type(const Floats& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, bytes.data(), dtype,
                   std::ssize(values));
  return bytes;
}

Floats as_floats(const std::vector<std::byte>& bytes, DType dtype) {
  Floats values(bytes.size() / size_of(dtype));
  convert_elements(bytes.data(), dtype, reinterpret_cast<std::byte*>(values.data()), DType::kFloat32,
                   std::ssize(values));
  return values;
}

// The correction is the gradient's square times the distance that the weights moved since.
TEST(PulledWeights, CorrectsGradientBySquareAndDistance) {
  const std::size_t numel = 3001;
  for (const DType gradients : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType weights : {DType::kFloat32, DType::kBFloat16}) {
      const std::vector<std::byte> now = as_type(some_floats(numel, 0.3), weights);
      const std::vector<std::byte> then = as_type(some_floats(numel, 0.4), weights);
      std::vector<std::byte> gradient = as_type(some_floats(numel, 0.7), gradients);
      const Floats before = as_floats(gradient, gradients), w = as_floats(now, weights), old = as_floats(then, weights);
      compensate(gradient.data(), gradients, now.data(), then.data(), weights, std::ssize(w), 0.5F);
      const Floats after = as_floats(gradient, gradients);
      const double precision = gradients == DType::kFloat32 ? 1e-6 : 1.0 / 128;
      for (std::size_t i = 0; i < numel; ++i) {
        const double g = before[i], expected = g + 0.5 * g * g * (static_cast<double>(w[i]) - old[i]);
        ASSERT_NEAR(after[i], expected, precision * (std::abs(expected) + 1e-3)) << i;
      }
    }
  }
}

TEST(PulledWeights, UnmovedWeightsKeepGradient) {
  const std::vector<std::byte> weights = as_type(some_floats(100, 0.3), DType::kFloat32);
  std::vector<std::byte> gradient = as_type(some_floats(100, 0.7), DType::kFloat32);
  const std::vector<std::byte> before = gradient;
  compensate(gradient.data(), DType::kFloat32, weights.data(), weights.data(), DType::kFloat32, 100, 3);
  EXPECT_EQ(gradient, before);
}

TEST(PulledWeights, LedgerHasEachWorkersWeights) {
  Ledger ledger;
  const std::vector<std::byte> first(24, std::byte{1}), second(24, std::byte{2});
  PulledWeights pulled(2, 24, ledger);
  EXPECT_EQ(ledger.held(Tier::kDevice)[MemoryTag::kStaging], 48);
  pulled.keep(0, first);
  pulled.keep(1, second);
  pulled.keep(0, second);
  pulled.keep(1, first);
  EXPECT_EQ(std::vector(pulled.of(0).begin(), pulled.of(0).end()), second);
  EXPECT_EQ(std::vector(pulled.of(1).begin(), pulled.of(1).end()), first);
}

}  // namespace
}  // namespace zero
