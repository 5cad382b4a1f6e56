// A GPU's kernels themselves, with fibers for threads: how they share elements, sums and blocks.
#include "tests/cuda/host_grid.h"
// After host_grid.h.
#include <gtest/gtest.h>

#include "zero/optim/elementwise/adamw8bit_kernel.h"

#include "plugins/cuda/element_kernels.cuh"
#include "plugins/cuda/factor_kernels.cuh"
#include "plugins/cuda/sum_kernels.cuh"
#include "plugins/cuda/update_kernels.cuh"
#include "tests/cuda/random_rank_sum.h"
#include "tests/cuda/random_span.h"
#include "tests/cuda/sum_lanes.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using namespace bodies;

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (built::kSanitized) GTEST_SKIP() << "sanitizers do not know fibers";
  }
};

int num_grids() {
  return num_trials("ZERO_KERNEL_GRIDS", 4, 25);
}

HostGrid grid_of(Random& random) {
  return {.blocks = 1 + static_cast<unsigned>(drawn(random, 4)), .threads = kThreads, .seed = random()};
}

// Spans of one to several tiles. The last tile is partial, and some spans are empty.
std::vector<RandomSpan> random_spans(Random& random, int states, int most) {
  std::vector<RandomSpan> spans;
  for (int i = drawn(random, most); i >= 0; --i) spans.emplace_back(random, states, drawn(random, 4) == 0 ? 1 : 5000);
  return spans;
}

bool same_sums(const SumLimbs& a, const SumLimbs& b) {
  return same_value(value_of(a), value_of(b));
}

TEST_F(Kernels, SliceUpdatesMatchHostBits) {
  Random random(61);
  for (int trial = 0; trial < num_grids(); ++trial) {
    std::vector<RandomSpan> expected = random_spans(random, 2, AdamArguments::kMost), actual = expected;
    AdamArguments of_host, of_kernel;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto constants = adam_constants(AdamWOptions{}, {.step = 1 + drawn(random, 9), .lr = 0.1});
      of_host.add(expected[i].span(), constants);
      of_kernel.add(actual[i].span(), constants);
    }
    kAdam.host(&of_host);
    const auto table = table_of(of_kernel);
    run_grid(grid_of(random), [&] { update_kernel(table); });
    ASSERT_TRUE(actual == expected) << "grid " << trial;
  }
}

// With and without a state.
TEST_F(Kernels, SgdUpdatesSlices) {
  Random random(62);
  std::vector<RandomSpan> expected;
  for (const int states : {1, 0, 1, 0}) expected.emplace_back(random, states, 3000);
  std::vector<RandomSpan> actual = expected;
  SgdArguments of_host, of_kernel;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto constants = sgd_constants({.momentum = 0.9}, {.step = 2, .lr = 0.1});
    of_host.add(expected[i].span(), constants);
    of_kernel.add(actual[i].span(), constants);
  }
  kSgd.host(&of_host);
  const auto table = table_of(of_kernel);
  run_grid(grid_of(random), [&] { update_kernel(table); });
  EXPECT_TRUE(actual == expected);
}

TEST_F(Kernels, EightBitUpdateMatchesHostBits) {
  Random random(63);
  for (int trial = 0; trial < num_grids(); ++trial) {
    std::vector<RandomSpan> expected = random_spans(random, 0, 4), actual = expected;
    std::vector<std::vector<std::uint8_t>> codes, other_codes;
    std::vector<std::vector<float>> scales, other_scales;
    for (const RandomSpan& span : expected) {
      for (int state = 0; state < 2; ++state) {
        std::vector<std::uint8_t>& of_state = codes.emplace_back(span.numel);
        for (std::uint8_t& code : of_state) code = static_cast<std::uint8_t>(1 + random() % 127);
        scales.emplace_back((span.numel + kCodeBlock - 1) / kCodeBlock, 0.25F);
      }
    }
    other_codes = codes;
    other_scales = scales;
    const auto arguments_of = [](std::vector<RandomSpan>& spans, auto& all_codes, auto& all_scales) {
      AdamArguments arguments;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        UpdateSpan span = spans[i].span();
        for (std::size_t state = 0; state < 2; ++state)
          span.coded[state] = {all_codes[2 * i + state].data(), all_scales[2 * i + state].data()};
        arguments.add(span, adamw8bit_constants(AdamWOptions{}, {.step = 3, .lr = 0.1, .gradient_scale = 0.01}));
      }
      return arguments;
    };
    const AdamArguments of_host = arguments_of(expected, codes, scales);
    kAdamW8bit.host(&of_host);
    const CodedTable table = coded_table_of(arguments_of(actual, other_codes, other_scales));
    run_grid(grid_of(random), [&] { adamw8bit_kernel(table); });
    ASSERT_TRUE(actual == expected) << "grid " << trial;
    ASSERT_EQ(other_codes, codes);
    for (std::size_t i = 0; i < scales.size(); ++i)
      ASSERT_TRUE(std::ranges::equal(other_scales[i], scales[i], [](float a, float b) { return same_value(a, b); }));
  }
}

// The statistics also match.
TEST_F(Kernels, RankSumMatchesHostBits) {
  Random random(64);
  for (int trial = 0; trial < 6 * num_grids(); ++trial) {
    const std::size_t numel = 1 + random() % 3000;
    const int special_in = drawn(random, 2) == 0 ? 0 : 300;
    RandomRankSum sum(random, numel, special_in);
    TypedElements expected = sum.start(), actual = sum.start();
    StatsLimbs expected_stats, actual_stats;
    sum.for_each_call(expected, expected_stats, [](const RankSumArguments& call) { kRankSum.host(&call); });
    sum.for_each_call(actual, actual_stats,
                      [&](const RankSumArguments& call) { run_grid(grid_of(random), [&] { rank_sum_kernel(call); }); });
    ASSERT_TRUE(actual == expected) << "grid " << trial;
    ASSERT_EQ(actual_stats.num_non_finite, expected_stats.num_non_finite);
    ASSERT_TRUE(same_sums(actual_stats.sum_squares, expected_stats.sum_squares));
  }
}

TEST_F(Kernels, LambSumsMatchHostBits) {
  Random random(65);
  for (int trial = 0; trial < num_grids(); ++trial) {
    std::vector<RandomSpan> spans = random_spans(random, 2, 5);
    LambSumsArguments arguments;
    std::vector<SumLimbs> expected(2 * spans.size()), actual(2 * spans.size());
    SumPlaces places;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      arguments.slices.add(spans[i].span(), lamb_constants({}, {.step = 2, .lr = 0.1, .weight_decay = 0.1}));
      arguments.parameter[i] = &expected[2 * i];
      arguments.direction[i] = &expected[2 * i + 1];
      places.parameter[i] = &actual[2 * i];
      places.direction[i] = &actual[2 * i + 1];
    }
    kLambSums.host(&arguments);
    const auto table = table_of(arguments.slices);
    run_grid(grid_of(random), [&] { lamb_sums_kernel(table, places); });
    for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_TRUE(same_sums(actual[i], expected[i])) << "sum " << i;
  }
}

TEST_F(Kernels, AdafactorMatchesHostBits) {
  Random random(66);
  for (int trial = 0; trial < 3 * num_grids(); ++trial) {
    const RandomSpan start(random, 0, 3000);
    if (start.numel == 0) continue;
    RandomSpan expected = start, actual = start;
    const std::int64_t columns = std::array{1, 5, 16, 100, 2048, 7000}[random() % 6];
    const std::int64_t first = kSumBlock * drawn(random, 200);
    const std::int64_t rows = (first + static_cast<std::int64_t>(start.numel)) / columns + 1;
    UpdateSpan of_host = expected.span(), of_kernel = actual.span();
    of_host.first = of_kernel.first = first;
    const auto constants = adafactor_constants({}, {.step = 4, .lr = 0.1, .gradient_scale = 0.5});
    std::vector<SumLimbs> sums(static_cast<std::size_t>(rows + columns)), other_sums = sums;
    FactorSquaresArguments squares{.span = of_host,
                                   .gradient_scale = 0.5F,
                                   .rows = sums.data(),
                                   .columns = sums.data() + rows,
                                   .matrix = {rows, columns}};
    kFactorSquares.host(&squares);
    squares.rows = other_sums.data();
    squares.columns = other_sums.data() + rows;
    const Slice slice = slice_of(of_kernel);
    run_grid(grid_of(random), [&] { row_squares_kernel(squares, slice); });
    run_grid(grid_of(random), [&] { column_squares_kernel(squares, slice); });
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_TRUE(same_sums(other_sums[i], sums[i])) << "sum " << i;

    std::vector<float> states(static_cast<std::size_t>(rows + columns));
    for (float& state : states) state = std::fabs(random_value(random)) + 1e-12F;
    std::vector<double> totals(static_cast<std::size_t>(rows));
    for (double& total : totals) total = std::fabs(random_value(random, 0));
    std::vector<float> other_states = states;
    float mean = 0, other_mean = 0;
    FactorArguments factor{
        .factor = states.data(), .sums = totals.data(), .numel = rows, .terms = columns, .constants = constants};
    kFactor.host(&factor);
    factor.factor = other_states.data();
    run_grid(grid_of(random), [&] { factor_kernel(factor); });
    RowMeanArguments row_mean{.row_var = states.data(), .mean = &mean, .numel = rows, .constants = constants};
    kRowMean.host(&row_mean);
    row_mean.mean = &other_mean;
    run_grid({.threads = kThreads, .seed = random()}, [&] { row_mean_kernel(row_mean); });
    ASSERT_TRUE(same_value(other_mean, mean));
    ASSERT_TRUE(std::ranges::equal(other_states, states, [](float a, float b) { return same_value(a, b); }));

    const FactoredConstants factored{.constants = constants,
                                     .row_var = states.data(),
                                     .col_var = states.data() + rows,
                                     .row_mean = &mean,
                                     .matrix = {rows, columns}};
    AdafactorSumsArguments totals_of;
    std::array<SumLimbs, 4> limbs;
    totals_of.slices.add(of_host, factored);
    totals_of.parameter[0] = &limbs[0];
    totals_of.direction[0] = &limbs[1];
    kAdafactorSums.host(&totals_of);
    SumPlaces places;
    places.parameter[0] = &limbs[2];
    places.direction[0] = &limbs[3];
    AdafactorArguments slices;
    slices.add(of_kernel, factored);
    const auto table = table_of(slices);
    run_grid(grid_of(random), [&] { adafactor_sums_kernel(table, places); });
    ASSERT_TRUE(same_sums(limbs[2], limbs[0]) && same_sums(limbs[3], limbs[1]));
    kAdafactor.host(&totals_of.slices);
    run_grid(grid_of(random), [&] { adafactor_kernel(table); });
    ASSERT_TRUE(actual == expected) << "grid " << trial;
  }
}

TEST_F(Kernels, CastAndAverageReachElementsOnce) {
  Random random(67);
  const std::size_t numel = 1000;
  Elements<float> from = random_floats(random, numel), average = random_floats(random, numel);
  Elements<float> expected = average;
  std::vector<BFloat16Bits> to(numel);
  const ElementArguments cast_arguments{.from = from.bytes(),
                                        .to = reinterpret_cast<std::byte*>(to.data()),
                                        .to_dtype = DType::kBFloat16,
                                        .numel = numel};
  run_grid(grid_of(random), [&] { cast_kernel(cast_arguments); });
  for (std::size_t i = 0; i < numel; ++i)
    ASSERT_TRUE(same_value(to_float(to[i]), to_float(to_bfloat16(from.data()[i]))));
  AverageArguments arguments{.parameter = from.data(), .average = expected.data(), .numel = numel, .weight = 0.25F};
  kAverage.host(&arguments);
  arguments.average = average.data();
  run_grid(grid_of(random), [&] { average_kernel(arguments); });
  EXPECT_TRUE(same_values(average, expected));
}

TEST_F(Kernels, DivergentThreadIsFound) {
  EXPECT_THROW(run_grid({.threads = 64, .seed = 1},
                        [] {
                          if (threadIdx.x != 40) __syncthreads();
                        }),
               std::runtime_error);
}

}  // namespace
}  // namespace zero
