#include "plugins/cuda/bodies/rule_bodies.h"

#include <gtest/gtest.h>

#include "tests/cuda/random_span.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// The number of spans for each rule. All rules together have 200,000 in the full tier.
int spans_of_a_rule() {
  return num_trials("ZERO_BODY_SPANS", 4000, 200000) / 8;
}

template <typename Constants>
void update_by_bodies(const UpdateSpan& span, const Constants& constants) {
  using namespace bodies;
  const Slice slice = slice_of(span);
  with_body(constants, slice, [&](const auto& rule) {
    constexpr int kStates = std::decay_t<decltype(rule)>::kStates;
    with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      for (std::int64_t i = 0; i < slice.numel; ++i) {
        Element e = load_element<kStates, G>(slice, rule.gradient_scale(), i);
        rule(e);
        store_element<kStates, Low>(slice, e, i);
      }
    });
  });
}

UpdateScalars random_scalars(Random& random) {
  return {.step = 1 + drawn(random, 3) * drawn(random, 1000),
          .lr = 0.001 * (1 + drawn(random, 100)),
          .gradient_scale = drawn(random, 2) == 0 ? 1.0 : 0.37,
          .weight_decay = 0.1 * drawn(random, 3),
          .matrix = {.rows = 1 + drawn(random, 100), .columns = 1 + drawn(random, 100)}};
}

double random_beta(Random& random) {
  return std::array{0.0, 0.3, 0.5, 0.9, 0.999}[random() % 5];
}

// `make(random, scalars)`: the rule's constants. `highway`: the kernel of the host.
template <typename Make, typename Constants>
void expect_the_same_bits(int seed, int states, Make make, void (*highway)(const UpdateSpan&, const Constants&)) {
  Random random(static_cast<std::uint64_t>(seed));
  for (int trial = 0; trial < spans_of_a_rule(); ++trial) {
    const Constants constants = make(random, random_scalars(random));
    const RandomSpan start(random, states);
    RandomSpan expected = start, actual = start;
    highway(expected.span(), constants);
    update_by_bodies(actual.span(), constants);
    ASSERT_TRUE(actual == expected) << "span " << trial << " of " << start.numel;
  }
}

TEST(RuleBodies, SgdMatchesHostBits) {
  const auto make = [](Random& random, const UpdateScalars& scalars) {
    return sgd_constants({.momentum = 0.9, .nesterov = drawn(random, 2) == 0}, scalars);
  };
  expect_the_same_bits(1, 0, make, &sgd_update);
  expect_the_same_bits(2, 1, make, &sgd_update);
}

TEST(RuleBodies, AdamMatchesHostBits) {
  const auto make = [](Random& random, const UpdateScalars& scalars) {
    const double beta1 = random_beta(random), beta2 = random_beta(random);
    return drawn(random, 2) == 0 ? adam_constants(AdamOptions{.beta1 = beta1, .beta2 = beta2}, scalars)
                                 : adam_constants(AdamWOptions{.beta1 = beta1, .beta2 = beta2}, scalars);
  };
  expect_the_same_bits(3, 2, make, &adam_update);
}

TEST(RuleBodies, LionMatchesHostBits) {
  const auto make = [](Random& random, const UpdateScalars& scalars) {
    return lion_constants({.beta1 = random_beta(random), .beta2 = random_beta(random)}, scalars);
  };
  expect_the_same_bits(4, 1, make, &lion_update);
}

TEST(RuleBodies, LambMatchesHostBits) {
  const auto make = [](Random& random, UpdateScalars scalars) {
    const std::array<double, 2> sums{random_value(random, 0) * 10.0 + 11, 3.0};
    scalars.sums = sums;
    return lamb_constants({.beta1 = random_beta(random), .beta2 = random_beta(random)}, scalars);
  };
  expect_the_same_bits(5, 2, make, &lamb_update);
}

TEST(RuleBodies, MuonElementwisePartsMatchHostBits) {
  expect_the_same_bits(
      6, 1,
      [](Random& random, const UpdateScalars& scalars) {
        return muon_direction_constants({.momentum = random_beta(random), .nesterov = drawn(random, 2) == 0}, scalars);
      },
      &muon_direct);
  expect_the_same_bits(
      7, 0, [](Random&, const UpdateScalars& scalars) { return muon_step_constants({}, scalars); }, &muon_step);
}

TEST(RuleBodies, SliceUpdatesUseTheirConstants) {
  Random random(8);
  AdamArguments arguments;
  std::vector<RandomSpan> spans;
  for (std::size_t i = 0; i < AdamArguments::kMost; ++i) spans.emplace_back(random, 2);
  std::vector<RandomSpan> expected = spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto constants = adam_constants(AdamWOptions{}, random_scalars(random));
    arguments.add(spans[i].span(), constants);
    update_by_bodies(expected[i].span(), constants);
  }
  EXPECT_TRUE(arguments.full());
  kAdam.host(&arguments);
  EXPECT_TRUE(spans == expected);
}

}  // namespace
}  // namespace zero
