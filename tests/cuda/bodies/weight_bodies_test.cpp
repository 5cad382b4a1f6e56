#include "plugins/cuda/bodies/weight_bodies.h"

#include <gtest/gtest.h>

#include "tests/cuda/random_span.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Weights {
  std::size_t numel;
  Elements<float> parameter, other, momentum, residual, sum;
  TypedElements low;
  explicit Weights(Random& random)
      : numel(random() % 400),
        parameter(random_floats(random, numel)),
        other(random_floats(random, numel)),
        momentum(random_floats(random, numel)),
        residual(random_floats(random, numel)),
        sum(random_floats(random, numel)),
        low(random, numel) {}
  std::byte* low_precision() { return low.dtype() == DType::kFloat32 ? nullptr : low.data(); }
  std::int64_t count() const { return static_cast<std::int64_t>(numel); }
  bool operator==(const Weights& w) const {
    return same_values(parameter, w.parameter) && same_values(other, w.other) && same_values(momentum, w.momentum) &&
           low == w.low;
  }
};

// Calls `arguments_of(weights)` and `body(arguments, low, i)`.
template <typename ArgumentsOf, typename Body>
void expect_the_same_bits(int seed, const Kernel& kernel, ArgumentsOf arguments_of, Body body) {
  Random random(static_cast<std::uint64_t>(seed));
  for (int trial = 0; trial < num_trials("ZERO_BODY_SPANS", 4000, 200000) / 40; ++trial) {
    const Weights start(random);
    Weights expected = start, actual = start;
    const auto of_host = arguments_of(expected), of_body = arguments_of(actual);
    kernel.host(&of_host);
    bodies::with_low_type(actual.low_precision(), actual.low.dtype(), [&](auto low) {
      for (std::int64_t i = 0; i < actual.count(); ++i) body(of_body, low, i);
    });
    ASSERT_TRUE(actual == expected) << kernel.name << ", span " << trial;
  }
}

TEST(WeightBodies, AverageMatchesHostBits) {
  expect_the_same_bits(
      51, kAverage,
      [](Weights& w) {
        return AverageArguments{
            .parameter = w.parameter.data(), .average = w.other.data(), .numel = w.count(), .weight = 0.001F};
      },
      [](const auto& a, auto, std::int64_t i) { bodies::average_element(a, i); });
}

TEST(WeightBodies, ExchangeMatchesHostBits) {
  expect_the_same_bits(
      52, kExchange,
      [](Weights& w) {
        return ExchangeArguments{.parameter = w.parameter.data(),
                                 .average = w.other.data(),
                                 .low_precision = w.low_precision(),
                                 .low_precision_dtype = w.low.dtype(),
                                 .numel = w.count()};
      },
      [](const auto& a, auto low, std::int64_t i) { bodies::exchange_element(a, low, i); });
}

OuterArguments outer(Weights& w, bool residual, bool moves_parameter) {
  return {.parameter = moves_parameter ? w.parameter.data() : nullptr,
          .momentum = w.momentum.data(),
          .anchor = w.other.data(),
          .residual = residual ? w.residual.data() : nullptr,
          .sum = w.sum.data(),
          .low_precision = w.low_precision(),
          .low_precision_dtype = w.low.dtype(),
          .numel = w.count(),
          .lr = 0.7F,
          .mu = 0.9F,
          .copies = 3};
}

TEST(WeightBodies, OuterStepMatchesHostBits) {
  for (const bool flag : {false, true}) {
    expect_the_same_bits(
        53, kOuterSubtract, [flag](Weights& w) { return outer(w, flag, true); },
        [](const auto& a, auto, std::int64_t i) { bodies::outer_subtract_element(a, i); });
    expect_the_same_bits(
        54, kOuterMove, [flag](Weights& w) { return outer(w, false, flag); },
        [](const auto& a, auto low, std::int64_t i) { bodies::outer_move_element(a, low, i); });
  }
}

TEST(WeightBodies, MixMatchesHostBits) {
  for (const float own : {0.0F, 0.3F}) {
    expect_the_same_bits(
        55, kMix,
        [own](Weights& w) {
          return MixArguments{.parameter = w.parameter.data(),
                              .anchor = w.other.data(),
                              .low_precision = w.low_precision(),
                              .low_precision_dtype = w.low.dtype(),
                              .numel = w.count(),
                              .own = own,
                              .shared = 1 - own};
        },
        [](const auto& a, auto low, std::int64_t i) { bodies::mix_element(a, low, i); });
  }
}

}  // namespace
}  // namespace zero
