// Sums over parameters, and Adafactor, which needs such sums.
#include <gtest/gtest.h>

#include "plugins/cuda/bodies/adafactor_body.h"
#include "plugins/cuda/bodies/rule_bodies.h"
#include "tests/cuda/random_span.h"
#include "tests/cuda/sum_lanes.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

int num_spans() {
  return num_trials("ZERO_BODY_SPANS", 4000, 200000) / 8;
}

void expect_same_sum(const SumLimbs& actual, const SumLimbs& expected) {
  EXPECT_TRUE(same_value(value_of(actual), value_of(expected))) << value_of(actual) << ' ' << value_of(expected);
}

TEST(RuleSums, LambSumsMatchHostBits) {
  Random random(41);
  for (int trial = 0; trial < num_spans() && !testing::Test::HasFailure(); ++trial) {
    RandomSpan memory(random, 2);
    const UpdateSpan span = memory.span();
    const auto constants = lamb_constants({}, {.step = 1 + drawn(random, 9), .lr = 0.1, .weight_decay = 0.1});
    LambSumsArguments arguments;
    SumLimbs parameter, direction, expected_parameter, expected_direction;
    arguments.slices.add(span, constants);
    arguments.parameter[0] = &expected_parameter;
    arguments.direction[0] = &expected_direction;
    kLambSums.host(&arguments);
    const bodies::LambBody body{constants};
    const bodies::Slice slice = bodies::slice_of(span);
    bodies::with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      add_squares_of(span.numel, direction, [&](std::int64_t i) {
        bodies::Element e = bodies::load_element<2, G>(slice, body.gradient_scale(), i);
        return body.direction(e);
      });
    });
    add_squares_of(span.numel, parameter, [&](std::int64_t i) { return span.parameter[i]; });
    expect_same_sum(parameter, expected_parameter);
    expect_same_sum(direction, expected_direction);
  }
}

// A part of a matrix or of a vector, with all its Adafactor states.
struct FactoredSpan {
  RandomSpan memory;
  MatrixShape matrix{};
  std::int64_t first = 0;
  Elements<float> row_var, col_var;
  float row_mean;

  FactoredSpan(Random& random, bool factored)
      : memory(random, factored ? 0 : 1),
        matrix(factored ? shape(random, memory.numel) : MatrixShape{}),
        first(factored ? kSumBlock * drawn(random, 3) : 0),
        row_var(variances(random, matrix.rows)),
        col_var(variances(random, matrix.columns)),
        row_mean(std::fabs(random_value(random, 20))) {}
  // The shape of a matrix that contains the span from `first` on.
  static MatrixShape shape(Random& random, std::size_t numel) {
    const std::int64_t columns = 1 + drawn(random, drawn(random, 2) == 0 ? 8 : 100);
    return {.rows = (static_cast<std::int64_t>(numel) + 2 * kSumBlock) / columns + 1, .columns = columns};
  }
  static Elements<float> variances(Random& random, std::int64_t count) {
    Elements<float> values = random_floats(random, static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = std::fabs(values.data()[i]);
    return values;
  }
  UpdateSpan span() {
    UpdateSpan span = memory.span();
    span.first = first;
    return span;
  }
  FactoredConstants constants(Random& random) {
    FactoredConstants c;
    c.constants = adafactor_constants(
        {}, {.step = 1 + drawn(random, 40), .lr = 0.1, .gradient_scale = 0.37, .weight_decay = 0.1});
    c.constants.minus_step = -0.01F;
    if (matrix.rows == 0) return c;
    c.row_var = row_var.data();
    c.col_var = col_var.data();
    c.row_mean = &row_mean;
    c.matrix = matrix;
    return c;
  }
};

template <typename Use>
void for_each_direction(const UpdateSpan& span, const FactoredConstants& c, Use use) {
  const bodies::AdafactorBody body{c, c.row_mean != nullptr ? *c.row_mean : 0};
  const bodies::Slice slice = bodies::slice_of(span);
  const bodies::MatrixPlaces places(slice.begin, c.matrix.columns);
  bodies::with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low> low) {
    for (std::int64_t i = 0; i < span.numel; ++i) {
      auto e = body.is_factored() ? bodies::load_element<0, G>(slice, c.constants.gradient_scale, i)
                                  : bodies::load_element<1, G>(slice, c.constants.gradient_scale, i);
      const auto at = static_cast<std::uint32_t>(i);
      const float u = body.direction(e, places.row(at), places.column(at));
      use(body, slice, low, e, u, i);
    }
  });
}

TEST(Adafactor, UpdatesMatchHostBits) {
  Random random(42);
  for (int trial = 0; trial < num_spans(); ++trial) {
    const bool factored = drawn(random, 3) != 0;
    const FactoredSpan start(random, factored);
    FactoredSpan expected = start, actual = start;
    const FactoredConstants constants = expected.constants(random);
    AdafactorArguments arguments;
    arguments.add(expected.span(), constants);
    kAdafactor.host(&arguments);
    for_each_direction(actual.span(), constants,
                       [&]<typename Low>(const auto& body, const auto& slice, std::type_identity<Low>, auto e, float u,
                                         std::int64_t i) {
                         body.step(e, u);
                         factored ? bodies::store_element<0, Low>(slice, e, i)
                                  : bodies::store_element<1, Low>(slice, e, i);
                       });
    ASSERT_TRUE(actual.memory == expected.memory) << "span " << trial << " of " << start.memory.numel;
  }
}

TEST(Adafactor, SumsMatchHostBits) {
  Random random(43);
  for (int trial = 0; trial < num_spans() && !testing::Test::HasFailure(); ++trial) {
    FactoredSpan memory(random, drawn(random, 3) != 0);
    const UpdateSpan span = memory.span();
    AdafactorSumsArguments arguments;
    SumLimbs parameter, direction, expected_parameter, expected_direction;
    const FactoredConstants constants = memory.constants(random);
    arguments.slices.add(span, constants);
    arguments.parameter[0] = &expected_parameter;
    arguments.direction[0] = &expected_direction;
    kAdafactorSums.host(&arguments);
    std::vector<float> directions(static_cast<std::size_t>(span.numel));
    for_each_direction(span, constants, [&](const auto&, const auto&, auto, auto, float u, std::int64_t i) {
      directions[static_cast<std::size_t>(i)] = u;
    });
    add_squares_of(span.numel, direction, [&](std::int64_t i) { return directions[static_cast<std::size_t>(i)]; });
    add_squares_of(span.numel, parameter, [&](std::int64_t i) { return span.parameter[i]; });
    expect_same_sum(parameter, expected_parameter);
    expect_same_sum(direction, expected_direction);
  }
}

// Adds to rows as groups of sixteen threads do, and to a column as one thread does.
void add_squares_by_bodies(const FactorSquaresArguments& a) {
  const bodies::Slice slice = bodies::slice_of(a.span);
  std::vector<float> squares(static_cast<std::size_t>(a.span.numel));
  bodies::with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
    for (std::size_t i = 0; i < squares.size(); ++i)
      squares[i] = bodies::gradient_square<G>(slice, a.gradient_scale, static_cast<std::int64_t>(i));
  });
  const bodies::MatrixPlaces places(a.span.first, a.matrix.columns);
  for (std::uint32_t i = 0; i < squares.size(); ++i)
    ThreadSum(a.columns[places.column(i)]).add(static_cast<double>(squares[i]));
  for (std::uint32_t begin = 0; begin < squares.size(); begin += 16) {
    const auto end = std::min<std::uint32_t>(begin + 16, static_cast<std::uint32_t>(squares.size()));
    for (std::int64_t row = places.row(begin); row <= places.row(end - 1); ++row) {
      Sixteen of_row;
      for (std::uint32_t i = begin; i < end; ++i) of_row.lane[i - begin] = places.row(i) == row ? squares[i] : 0.0;
      ThreadSum(a.rows[row]).add(bodies::whole_term(of_row, ExchangeLanes()).lane[0]);
    }
  }
}

TEST(Adafactor, RowColumnSquaresMatchHostBits) {
  Random random(44);
  for (int trial = 0; trial < num_spans() / 4 && !testing::Test::HasFailure(); ++trial) {
    FactoredSpan memory(random, true);
    const auto rows = static_cast<std::size_t>(memory.matrix.rows);
    const auto columns = static_cast<std::size_t>(memory.matrix.columns);
    std::vector<SumLimbs> expected(rows + columns), actual(rows + columns);
    FactorSquaresArguments arguments{.span = memory.span(), .gradient_scale = 0.37F, .matrix = memory.matrix};
    arguments.rows = expected.data();
    arguments.columns = expected.data() + rows;
    kFactorSquares.host(&arguments);
    arguments.rows = actual.data();
    arguments.columns = actual.data() + rows;
    add_squares_by_bodies(arguments);
    for (std::size_t i = 0; i < expected.size(); ++i) expect_same_sum(actual[i], expected[i]);
  }
}

TEST(Adafactor, RowColumnStatesMatchHostBits) {
  Random random(45);
  for (int trial = 0; trial < 200; ++trial) {
    FactoredSpan memory(random, true);
    const AdafactorConstants constants = memory.constants(random).constants;
    Elements<float> expected = memory.row_var, actual = memory.row_var;
    std::vector<double> sums(expected.size());
    for (double& sum : sums) sum = std::fabs(static_cast<double>(random_value(random))) * 100;
    FactorArguments factor{.factor = expected.data(),
                           .sums = sums.data(),
                           .numel = memory.matrix.rows,
                           .terms = 33,
                           .constants = constants};
    kFactor.host(&factor);
    double sum = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      actual.data()[i] = bodies::update_factor_element(actual.data()[i], sums[i], 33, constants);
      sum = bodies::add(sum, static_cast<double>(actual.data()[i]));
    }
    ASSERT_TRUE(same_values(actual, expected));
    float mean = 0;
    const RowMeanArguments arguments{
        .row_var = expected.data(), .mean = &mean, .numel = memory.matrix.rows, .constants = constants};
    kRowMean.host(&arguments);
    ASSERT_TRUE(same_value(bodies::row_mean_of(sum, memory.matrix.rows, constants), mean));
  }
}

}  // namespace
}  // namespace zero
