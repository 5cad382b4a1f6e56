#include "plugins/cuda/bodies/element_bodies.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/cuda/random_span.h"
#include "tests/cuda/sum_lanes.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

int num_spans() {
  return num_trials("ZERO_BODY_SPANS", 4000, 200000) / 8;
}

TEST(ElementBodies, CastAndSumMatchHostBits) {
  Random random(31);
  for (int trial = 0; trial < num_spans(); ++trial) {
    const std::size_t numel = random() % 300;
    TypedElements from(random, numel);
    const TypedElements start(random, numel);
    TypedElements expected = start, actual = start;
    const auto arguments = [&](TypedElements& to) {
      return ElementArguments{.from = from.data(),
                              .from_dtype = from.dtype(),
                              .to = to.data(),
                              .to_dtype = to.dtype(),
                              .numel = static_cast<std::int64_t>(numel)};
    };
    const bool adds = drawn(random, 2) == 0;
    const ElementArguments of_host = arguments(expected), of_body = arguments(actual);
    (adds ? kAdd : kCast).host(&of_host);
    bodies::with_element_types(of_body.from_dtype, of_body.to_dtype, [&](auto in, auto out) {
      for (std::int64_t i = 0; i < of_body.numel; ++i)
        adds ? bodies::add_element(of_body, in, out, i) : bodies::cast_element(of_body, in, out, i);
    });
    ASSERT_TRUE(actual == expected) << "span " << trial << " of " << numel;
  }
}

TEST(ElementBodies, InPlaceRoundingMatchesHostBits) {
  Random random(32);
  for (int trial = 0; trial < num_spans(); ++trial) {
    const std::size_t numel = random() % 100;
    const Elements<float> start = random_floats(random, numel, 100);
    Elements<float> expected = start, actual = start;
    const auto arguments = [&](Elements<float>& values) {
      return ElementArguments{.from_dtype = trial % 2 == 0 ? DType::kBFloat16 : DType::kFloat16,
                              .to = reinterpret_cast<std::byte*>(values.data()),
                              .numel = static_cast<std::int64_t>(numel)};
    };
    const ElementArguments of_host = arguments(expected), of_body = arguments(actual);
    kRound.host(&of_host);
    with_type_of(of_body.from_dtype, [&](auto type) {
      for (std::int64_t i = 0; i < of_body.numel; ++i) bodies::round_element(of_body, type, i);
    });
    ASSERT_EQ(std::memcmp(actual.data(), expected.data(), numel * sizeof(float)), 0) << "span " << trial;
  }
}

// Adds as groups of sixteen threads do.
void sum_by_bodies(const RankSumArguments& a) {
  ThreadSum squares(a.stats->sum_squares);
  bodies::with_element_types(a.dtype, a.out_dtype, [&](auto in, auto out) {
    for (std::int64_t begin = 0; begin < a.numel; begin += kSumBlock) {
      Sixteen block;
      for (std::int64_t i = begin; i < a.numel && i < begin + kSumBlock; ++i) {
        const float value = bodies::sum_of_ranks(a, in, out, i);
        block.lane[static_cast<std::size_t>(i - begin)] = bodies::square_of(value);
        a.stats->num_non_finite += bodies::is_finite(value) ? 0U : 1U;
      }
      const Sixteen terms = bodies::quarter_terms(block, ExchangeLanes());
      for (std::size_t i = 0; i < 4; ++i) squares.add(terms.lane[i]);
    }
  });
}

// The statistics also match.
TEST(ElementBodies, RankSumMatchesHostBits) {
  Random random(32);
  for (int trial = 0; trial < num_spans(); ++trial) {
    const std::size_t numel = random() % 400;
    const int special_in = drawn(random, 2) == 0 ? 0 : 400;  // one in forty would leave no finite sum
    std::vector<TypedElements> in;
    const std::size_t ranks = 1 + static_cast<std::size_t>(drawn(random, 5));
    while (in.size() < ranks) {
      TypedElements of_rank(random, numel, special_in);
      if (in.empty() || of_rank.dtype() == in.front().dtype()) in.push_back(of_rank);
    }
    RankSumArguments arguments{.num_in = static_cast<std::int32_t>(in.size()),
                               .dtype = in.front().dtype(),
                               .numel = static_cast<std::int64_t>(numel)};
    for (std::size_t rank = 0; rank < in.size(); ++rank) arguments.in[rank] = in[rank].data();
    const TypedElements start(random, numel, special_in);
    Elements<float> onto = random_floats(random, numel, special_in);
    if (drawn(random, 3) == 0) arguments.onto = onto.data();
    arguments.out_dtype = start.dtype();
    arguments.accumulate = start.dtype() == DType::kFloat32 && drawn(random, 2) == 0;
    TypedElements expected = start, actual = start;
    StatsLimbs expected_stats, actual_stats;
    RankSumArguments of_host = arguments, of_body = arguments;
    of_host.out = expected.data();
    of_host.stats = &expected_stats;
    of_body.out = actual.data();
    of_body.stats = &actual_stats;
    kRankSum.host(&of_host);
    sum_by_bodies(of_body);
    ASSERT_TRUE(actual == expected) << "span " << trial << " of " << numel;
    ASSERT_EQ(actual_stats.num_non_finite, expected_stats.num_non_finite);
    ASSERT_TRUE(same_value(value_of(actual_stats.sum_squares), value_of(expected_stats.sum_squares)));
  }
}

TEST(ElementBodies, LimbStatisticsMatchTheSum) {
  Random random(33);
  TypedElements values(random, 1000, 0);
  ReduceStats expected = stats_of(values.data(), values.dtype(), 1000);
  StatsLimbs limbs;
  limbs.num_non_finite = 3;
  expected.sum_squares.add_to(limbs.sum_squares);
  ReduceStats actual;
  limbs.add_to(actual);
  EXPECT_EQ(actual.sum_squares.value(), expected.sum_squares.value());
  EXPECT_EQ(actual.num_non_finite, 3);
}

}  // namespace
}  // namespace zero
