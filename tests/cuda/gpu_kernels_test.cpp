// Kernels on a GPU that do more than update single elements, bit for bit against the host's code. They are sums over
// ranks with their statistics, casts, averages, and the sums of LAMB and Adafactor. Uses ZERO_TEST_DEVICE like
// gpu_test.cpp.
#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "zero/comm/rank_sum.h"
#include "zero/device/element_kernels.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/whole/adafactor_kernel.h"
#include "zero/optim/whole/lamb_kernel.h"

#include "tests/cuda/device_arrays.h"
#include "tests/cuda/on_the_gpu.h"
#include "tests/cuda/random_rank_sum.h"
#include "tests/cuda/random_span.h"
#include "tests/cuda/sum_lanes.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

int num_draws() {
  return num_trials("ZERO_GPU_SPANS", 100, 5000);
}

bool same_sums(const SumLimbs& a, const SumLimbs& b) {
  return same_value(value_of(a), value_of(b));
}

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return same_value(x, y); });
}

// The statistics also match.
TEST_F(OnTheGpu, RankSumMatchesHostBits) {
  Random random(81);
  for (int trial = 0; trial < num_draws(); ++trial) {
    const std::size_t numel = 1 + random() % (drawn(random, 8) == 0 ? 300'000 : 3000);
    const int special_in = drawn(random, 2) == 0 ? 0 : 300;
    RandomRankSum sum(random, numel, special_in);
    TypedElements expected = sum.start(), actual = sum.start();
    StatsLimbs expected_stats, actual_stats;
    sum.for_each_call(expected, expected_stats, [](const RankSumArguments& call) { kRankSum.host(&call); });
    sum.for_each_call(actual, actual_stats, [&](RankSumArguments call) {
      DeviceArrays arrays(device());
      for (std::int32_t rank = 0; rank < call.num_in; ++rank) {
        const std::byte*& in = call.in[static_cast<std::size_t>(rank)];
        in = arrays.bring(in, size_of(call.dtype) * numel);
      }
      call.onto = arrays.bring(call.onto, numel);
      call.out = arrays.bring(call.out, size_of(call.out_dtype) * numel);
      call.stats = arrays.bring(call.stats, 1);
      run_there(kRankSum, call);
      arrays.take_back();
    });
    ASSERT_TRUE(actual == expected) << "trial " << trial << ", elements " << numel;
    ASSERT_EQ(actual_stats.num_non_finite, expected_stats.num_non_finite);
    ASSERT_TRUE(same_sums(actual_stats.sum_squares, expected_stats.sum_squares)) << trial;
  }
}

TEST_F(OnTheGpu, LambSumsMatchHostBits) {
  Random random(82);
  for (int trial = 0; trial < num_draws(); ++trial) {
    std::vector<RandomSpan> spans;
    for (int i = drawn(random, 5); i >= 0; --i) spans.emplace_back(random, 2, drawn(random, 4) == 0 ? 1 : 20'000);
    LambSumsArguments of_host, of_gpu;
    std::vector<SumLimbs> expected(2 * spans.size()), actual(2 * spans.size());
    DeviceArrays arrays(device());
    SumLimbs* const sums = arrays.bring(actual.data(), actual.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const auto constants = lamb_constants({}, {.step = 2, .lr = 0.1, .weight_decay = 0.1});
      of_host.slices.add(spans[i].span(), constants);
      of_host.parameter[i] = &expected[2 * i];
      of_host.direction[i] = &expected[2 * i + 1];
      of_gpu.slices.add(arrays.bring(spans[i].span()), constants);
      of_gpu.parameter[i] = sums + 2 * i;
      of_gpu.direction[i] = sums + 2 * i + 1;
    }
    kLambSums.host(&of_host);
    run_there(kLambSums, of_gpu);
    arrays.take_back();
    for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_TRUE(same_sums(actual[i], expected[i])) << "sum " << i;
  }
}

TEST_F(OnTheGpu, AdafactorMatchesHostBits) {
  Random random(83);
  for (int trial = 0; trial < num_draws(); ++trial) {
    RandomSpan expected(random, 0, 10'000);
    if (expected.numel == 0) continue;
    RandomSpan actual = expected;
    const std::int64_t columns = std::array{1, 5, 16, 100, 2048, 7000}[random() % 6];
    const std::int64_t first = kSumBlock * drawn(random, 200);
    const std::int64_t rows = (first + static_cast<std::int64_t>(expected.numel)) / columns + 1;
    const auto constants = adafactor_constants({}, {.step = 4, .lr = 0.1, .gradient_scale = 0.5});
    UpdateSpan of_host = expected.span();
    of_host.first = first;
    const auto num_sums = static_cast<std::size_t>(rows + columns);
    std::vector<SumLimbs> sums(num_sums), sums_there(num_sums);
    std::vector<float> states(num_sums), states_there;
    for (float& state : states) state = std::fabs(random_value(random)) + 1e-12F;
    states_there = states;
    std::vector<double> totals(static_cast<std::size_t>(rows));
    for (double& total : totals) total = std::fabs(random_value(random, 0));
    float mean = 0, mean_there = 0;
    std::array<SumLimbs, 2> limbs, limbs_there;

    const auto work = [&](const UpdateSpan& span, SumLimbs* sum, float* state, const double* total, float* row_mean,
                          SumLimbs* both, const auto& call) {
      call(kFactorSquares,
           FactorSquaresArguments{
               .span = span, .gradient_scale = 0.5F, .rows = sum, .columns = sum + rows, .matrix = {rows, columns}});
      call(kFactor,
           FactorArguments{.factor = state, .sums = total, .numel = rows, .terms = columns, .constants = constants});
      call(kRowMean, RowMeanArguments{.row_var = state, .mean = row_mean, .numel = rows, .constants = constants});
      const FactoredConstants factored{.constants = constants,
                                       .row_var = state,
                                       .col_var = state + rows,
                                       .row_mean = row_mean,
                                       .matrix = {rows, columns}};
      AdafactorSumsArguments with_sums;
      with_sums.slices.add(span, factored);
      with_sums.parameter[0] = both;
      with_sums.direction[0] = both + 1;
      call(kAdafactorSums, with_sums);
      call(kAdafactor, with_sums.slices);
    };
    work(of_host, sums.data(), states.data(), totals.data(), &mean, limbs.data(),
         [](const Kernel& kernel, const auto& arguments) { kernel.host(&arguments); });
    DeviceArrays arrays(device());
    UpdateSpan of_gpu = arrays.bring(actual.span());
    of_gpu.first = first;
    work(of_gpu, arrays.bring(sums_there.data(), num_sums), arrays.bring(states_there.data(), num_sums),
         arrays.bring(totals.data(), totals.size()), arrays.bring(&mean_there, 1), arrays.bring(limbs_there.data(), 2),
         [&](const Kernel& kernel, const auto& arguments) { run_there(kernel, arguments); });
    arrays.take_back();
    for (std::size_t i = 0; i < num_sums; ++i) ASSERT_TRUE(same_sums(sums_there[i], sums[i])) << "sum " << i;
    ASSERT_TRUE(same_value(mean_there, mean));
    ASSERT_TRUE(same_floats(states_there, states)) << trial;
    ASSERT_TRUE(same_sums(limbs_there[0], limbs[0]) && same_sums(limbs_there[1], limbs[1])) << trial;
    ASSERT_TRUE(actual == expected) << "trial " << trial;
  }
}

TEST_F(OnTheGpu, CastsSumsAveragesMatchHostBits) {
  Random random(84);
  for (int trial = 0; trial < num_draws(); ++trial) {
    const std::size_t numel = 1 + random() % (drawn(random, 8) == 0 ? 300'000 : 3000);
    TypedElements from(random, numel), expected(random, numel);
    TypedElements actual = expected;
    ElementArguments arguments{
        .from_dtype = from.dtype(), .to_dtype = expected.dtype(), .numel = static_cast<std::int64_t>(numel)};
    for (const Kernel* const kernel : {&kAdd, &kCast}) {
      if (kernel == &kCast && arguments.from_dtype == arguments.to_dtype) continue;
      arguments.from = from.data();
      arguments.to = expected.data();
      kernel->host(&arguments);
      DeviceArrays arrays(device());
      arguments.from = arrays.bring(from.data(), size_of(from.dtype()) * numel);
      arguments.to = arrays.bring(actual.data(), size_of(actual.dtype()) * numel);
      run_there(*kernel, arguments);
      arrays.take_back();
      ASSERT_TRUE(actual == expected) << kernel->name << ", trial " << trial;
    }
    Elements<float> parameter = random_floats(random, numel), average = random_floats(random, numel);
    Elements<float> average_there = average;
    AverageArguments averages{
        .parameter = parameter.data(), .average = average.data(), .numel = arguments.numel, .weight = 0.25F};
    kAverage.host(&averages);
    DeviceArrays arrays(device());
    averages.parameter = arrays.bring(parameter.data(), numel);
    averages.average = arrays.bring(average_there.data(), numel);
    run_there(kAverage, averages);
    arrays.take_back();
    ASSERT_TRUE(same_values(average_there, average)) << trial;
  }
}

}  // namespace
}  // namespace zero
