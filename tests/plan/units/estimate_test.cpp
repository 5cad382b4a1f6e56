#include "zero/plan/units/estimate.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "zero/plan/units/cut.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

#include "tests/plan/gpt_like.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

// Table 1 of the ZeRO paper (Rajbhandari et al., SC'20), as printed: GB per device, stages 1 / 2 / 3.
struct Row {
  int world;
  const char* cells[3][3];  // by model, by stage
};
constexpr double kModels[] = {7.5e9, 128e9, 1e12};
constexpr Row kTable1[] = {{1, {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}}},
                           {4, {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}}},
                           {16, {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}}},
                           {64, {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}}},
                           {256, {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}}},
                           {1024, {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}}};

// One unit of the last printed digit: the paper rounds some cells and truncates others.
double last_digit(const std::string& cell) {
  const auto dot = cell.find('.');
  return dot == std::string::npos ? 1.0 : std::pow(10.0, -static_cast<double>(cell.size() - dot - 1));
}

TEST(Estimate, MatchesTable1OfZeroPaper) {
  int num_cells = 0;
  for (const Row& row : kTable1) {
    for (int model = 0; model < 3; ++model) {
      for (int stage = 1; stage <= 3; ++stage) {
        const std::string cell = row.cells[model][stage - 1];
        const double gigabytes =
            state_formula_bytes(std::llround(kModels[model]), row.world, stage, DType::kBFloat16, fp32_states(2)) / 1e9;
        EXPECT_LT(std::abs(gigabytes - std::stod(cell)), last_digit(cell))
            << kModels[model] << " parameters on " << row.world << " ranks, stage " << stage;
        ++num_cells;
      }
    }
  }
  EXPECT_EQ(num_cells, 54);
}

TEST(Estimate, TheFormulasAreThePapers) {
  const double p = 1e6;
  const auto mixed = [&](int stage) {
    return state_formula_bytes(1000000, 8, stage, DType::kBFloat16, fp32_states(2));
  };
  EXPECT_DOUBLE_EQ(mixed(0), 16 * p);
  EXPECT_DOUBLE_EQ(mixed(1), 4 * p + 12 * p / 8);
  EXPECT_DOUBLE_EQ(mixed(2), 2 * p + 14 * p / 8);
  EXPECT_DOUBLE_EQ(mixed(3), 16 * p / 8);
  const auto single = [&](int stage) {
    return state_formula_bytes(1000000, 8, stage, DType::kFloat32, fp32_states(2));
  };
  EXPECT_DOUBLE_EQ(single(0), 16 * p);
  EXPECT_DOUBLE_EQ(single(1), 8 * p + 8 * p / 8);
  EXPECT_DOUBLE_EQ(single(2), 4 * p + 12 * p / 8);
  EXPECT_DOUBLE_EQ(single(3), 16 * p / 8);
  EXPECT_DOUBLE_EQ(state_formula_bytes(1000000, 8, 0, DType::kFloat32, fp32_states(0)), 8 * p)
      << "plain SGD has no moments";
}

// The formula is linear, so the bytes of the padding are the formula of the padding.
TEST(Estimate, StateIsFormulaPlusPadding) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto units = gpt_units({.width = 12, .vocab = 31, .dtype = dtype});
    for (const int world : {1, 2, 4, 8}) {
      std::int64_t used = 0;
      std::int64_t padding = 0;
      for (const Unit& unit : units) {
        padding += padding_numel(unit, world);
        used += padded_numel(unit, world) - padding_numel(unit, world);
      }
      for (int stage = 0; stage <= 3; ++stage) {
        const StateBytes held = state_bytes(units, world, place(stage, Reduce::kAuto, 1), fp32_states(2));
        EXPECT_DOUBLE_EQ(static_cast<double>(held.total()),
                         state_formula_bytes(used, world, stage, dtype, fp32_states(2)) +
                             state_formula_bytes(padding, world, stage, dtype, fp32_states(2)))
            << name_of(dtype) << " stage " << stage << " on " << world;
      }
    }
  }
}

TEST(Estimate, MicroBatchesHoldFp32Gradient) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto units = gpt_units({.dtype = dtype});
    for (int stage = 0; stage <= 3; ++stage) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        const std::int64_t numel = padded_bytes(units, 4) / static_cast<std::int64_t>(size_of(dtype));
        const bool sharded = stage >= 2 && reduce == Reduce::kEach;
        EXPECT_EQ(state_bytes(units, 4, place(stage, reduce, 3), fp32_states(2)).gradient,
                  numel * 4 / (sharded ? 4 : 1));
      }
    }
  }
}

TEST(Estimate, FrozenUnitHoldsParameterOnly) {
  auto specs = gpt_specs({.dtype = DType::kBFloat16});
  for (ParamSpec& spec : specs) spec.trainable = false;
  const auto units = make_units(specs, {});
  const StateBytes held = state_bytes(units, 2, place(1, Reduce::kAuto, 1), fp32_states(2));
  EXPECT_EQ(held, (StateBytes{.parameter = padded_bytes(units, 2)}));
  EXPECT_EQ(sent_bytes(units, 2, place(1, Reduce::kAuto, 1)), 0);
  EXPECT_EQ(sent_bytes(units, 2, place(3, Reduce::kAuto, 1)), padded_bytes(units, 2)) << "two gathers, half of it each";
}

OptimizerSpec in_eight_bits() {
  return {.states = {{.name = "a", .code = StateCode::kSigned8}, {.name = "b", .code = StateCode::kUnsigned8}}};
}

// A state has one byte for each element, and a scale for each block.
TEST(Estimate, EightBitStatesCountScales) {
  const OptimizerSpec spec = in_eight_bits();
  const auto units = make_units(gpt_specs({.dtype = DType::kBFloat16}), {}, spec.grain());
  for (const int world : {1, 3}) {
    Placement placement = place(3, Reduce::kAuto, 1);
    std::int64_t shard = 0;
    for (const Unit& unit : units) shard += shard_of(unit, 0, world).numel;
    EXPECT_EQ(shard % 256, 0);
    const std::int64_t scales = shard / 256 * 8;
    EXPECT_EQ(state_bytes(units, world, placement, spec).moment, 2 * shard + scales);
    spread_over_tiers(placement, units, world, {.optimizer = {.host = 1}});
    EXPECT_EQ(state_bytes(units, world, placement, spec, Tier::kHost).moment, 2 * shard);
    EXPECT_EQ(state_bytes(units, world, placement, spec, Tier::kDevice).moment, scales) << "they stay";
  }
  EXPECT_DOUBLE_EQ(state_formula_bytes(1 << 20, 1, 0, DType::kFloat32, spec), (8 + 2 + 8 / 256.0) * (1 << 20));
}

TEST(Estimate, TenThousandRanksHoldTenThousandth) {
  const auto units =
      gpt_units({.layers = 4, .width = 1024, .vocab = 50257, .context = 1024, .dtype = DType::kBFloat16});
  const StateBytes one = state_bytes(units, 1, place(3, Reduce::kAuto, 1), fp32_states(2));
  const StateBytes many = state_bytes(units, 10000, place(3, Reduce::kAuto, 1), fp32_states(2));
  const std::int64_t alignment = static_cast<std::int64_t>(units.size()) * 32 * 16;
  EXPECT_GE(many.total(), one.total() / 10000);
  EXPECT_LE(many.total(), one.total() / 10000 + alignment);
}

TEST(Estimate, SentBytesFollowMicroBatchFormula) {
  const auto units = gpt_units({.dtype = DType::kBFloat16});
  for (const int world : {1, 2, 4, 8, 1024}) {
    const std::int64_t pass = padded_bytes(units, world) / world * (world - 1);  // P(N-1)/N in bytes
    for (const int k : {1, 3}) {
      for (int stage = 0; stage <= 2; ++stage) {
        EXPECT_EQ(sent_bytes(units, world, place(stage, Reduce::kEach, k)), (k + 1) * pass);
        EXPECT_EQ(sent_bytes(units, world, place(stage, Reduce::kLast, k)), 2 * pass);
      }
      EXPECT_EQ(sent_bytes(units, world, place(3, Reduce::kEach, k)), 3 * k * pass);
      EXPECT_EQ(sent_bytes(units, world, place(3, Reduce::kLast, k)), (2 * k + 1) * pass);
    }
  }
}

// A pass sends all shards but the rank's own.
TEST(Estimate, SendsTwoOrThreePasses) {
  EXPECT_DOUBLE_EQ(sent_formula_bytes(1000, 4, place(2, Reduce::kAuto, 1), DType::kFloat32), 4 * 2 * 1000 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(sent_formula_bytes(1000, 4, place(3, Reduce::kAuto, 1), DType::kFloat32), 4 * 3 * 1000 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(sent_formula_bytes(1000, 4, place(1, Reduce::kEach, 5), DType::kFloat32), 4 * 6 * 1000 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(sent_formula_bytes(1000, 4, place(3, Reduce::kLast, 5), DType::kFloat32), 4 * 11 * 1000 * 3 / 4.0);
  EXPECT_EQ(sent_formula_bytes(1000, 1, place(3, Reduce::kAuto, 1), DType::kFloat32), 0)
      << "a single rank sends nothing";
}

// Each shard begins a new block with its own scale. With 1,000 elements on three ranks, a shard has 336 elements and
// two scales.
TEST(Estimate, CodedUnitsSendCodesAndScales) {
  const std::vector<Unit> units(1, {.slices = {{.param = 0, .offset = 0, .numel = 1000}}, .numel = 1000});
  ASSERT_EQ(shard_numel(units[0], 3), 336);
  for (const int accumulate : {1, 2}) {
    Placement placement = place(3, Reduce::kEach, accumulate);
    placement.wire = {.gather = WireCodec::kInt4, .reduce = WireCodec::kInt8};
    EXPECT_EQ(sent_bytes(units, 3, placement), accumulate * 2 * (2 * (168 + 8) + (336 + 8)));
    EXPECT_DOUBLE_EQ(sent_formula_bytes(768, 3, placement, DType::kFloat32),
                     accumulate * (2 * (384 + 12) + (768 + 12)) * 2 / 3.0);
    placement = place(1, Reduce::kEach, accumulate);
    placement.wire.reduce = WireCodec::kInt8;
    EXPECT_EQ(sent_bytes(units, 3, placement), 2 * (accumulate * (336 + 8) + 4 * 336));
  }
}

// A rule that updates matrices as wholes: matrices have one state, other parameters two. Directions are sent in fp32.
TEST(Estimate, CountsStatesAndDirectionsOfMatrices) {
  const OptimizerSpec spec{.states = {{.name = "m", .of = StateOf::kMatrices},
                                      {.name = "a", .of = StateOf::kOthers},
                                      {.name = "b", .of = StateOf::kOthers}}};
  EXPECT_EQ(spec.value_bytes(/*matrices=*/true), 4);
  EXPECT_EQ(spec.value_bytes(/*matrices=*/false), 8);
  const auto units = make_units({{.name = "h.0.weight", .shape = {64, 64}, .dtype = DType::kBFloat16},
                                 {.name = "h.0.bias", .shape = {64}, .dtype = DType::kBFloat16}},
                                {}, 1, {.is_matrix = [](const ParamSpec& each) { return each.shape.size() == 2; }});
  for (const int stage : {0, 1, 2, 3}) {
    const Placement placement = place(stage, Reduce::kAuto, 1);
    const int shards = stage == 0 ? 1 : 2;
    EXPECT_EQ(state_bytes(units, 2, placement, spec).moment, (4 * 4096 + 8 * 64) / shards) << stage;
    const std::int64_t directions = stage == 0 ? 0 : 4 * 4096 / 2;
    EXPECT_EQ(update_sent_bytes(units[0], 2, placement), directions) << stage;
    EXPECT_EQ(update_sent_bytes(units[1], 2, placement), 0) << "elementwise updates send nothing";
    EXPECT_EQ(sent_bytes(units, 2, placement), (stage == 3 ? 3 : 2) * (4096 + 64) * 2 / 2 + directions) << stage;
    EXPECT_DOUBLE_EQ(update_sent_formula_bytes(units[0], 2, placement), static_cast<double>(directions)) << stage;
  }
  EXPECT_DOUBLE_EQ(state_formula_bytes(1000, 4, 1, DType::kFloat32, spec, /*matrices=*/true), 1000 * (8 + 4.0 / 4));
}

// The two matrices are equal. With equal ranges two ranks own one matrix each, while three ranks cut both. Directions
// are sent only if a shard ends within a matrix.
TEST(Estimate, SplitMatricesSendDirections) {
  const auto units = make_units({{.name = "h.0.a", .shape = {64, 64}}, {.name = "h.0.b", .shape = {64, 64}}}, {}, 1,
                                {.is_matrix = [](const ParamSpec&) { return true; }});
  for (const int stage : {1, 2, 3}) {
    const Placement placement = place(stage, Reduce::kAuto, 1);
    EXPECT_FALSE(gathers_directions(units[0], 2, placement));
    EXPECT_EQ(update_sent_bytes(units[0], 2, placement), 0) << stage;
    EXPECT_EQ(update_sent_formula_bytes(units[0], 2, placement), 0) << stage;
    EXPECT_TRUE(gathers_directions(units[0], 3, placement));
    EXPECT_EQ(update_sent_bytes(units[0], 3, placement), 2 * 4 * 2736) << stage;
    const auto whole = cut_units(units, Cut::kWhole, 3);
    EXPECT_EQ(update_sent_bytes(whole[0], 3, placement), 0) << stage;
    EXPECT_EQ(update_sent_bytes(weighted_units(units, std::vector<double>{1, 1}, 0)[0], 2, placement), 0) << stage;
    EXPECT_GT(update_sent_bytes(weighted_units(units, std::vector<double>{2, 1}, 0)[0], 2, placement), 0) << stage;
  }
  EXPECT_FALSE(gathers_directions(units[0], 3, place(0, Reduce::kAuto, 1))) << "every rank computes all directions";
}

// At every stage each rank holds a float for each row and column. A step sends an exact sum and a double for each of
// them.
TEST(Estimate, CountsRowAndColumnStates) {
  const OptimizerSpec spec{.states = {{.name = "variance", .of = StateOf::kOthers}},
                           .factors = {{.name = "row_var", .of = StateOf::kMatrices, .per = StatePer::kRow},
                                       {.name = "col_var", .of = StateOf::kMatrices, .per = StatePer::kColumn}},
                           .num_reads = 2};
  const auto units =
      make_units({{.name = "h.0.weight", .shape = {60, 4, 10}}, {.name = "h.0.bias", .shape = {64}}}, {}, 1,
                 {.is_matrix = [](const ParamSpec& each) { return each.shape.size() > 1; }, .factored = true});
  ASSERT_EQ(units.size(), 2U);
  EXPECT_TRUE(units[0].factored);
  EXPECT_FALSE(units[1].factored);
  for (const int stage : {0, 1, 2, 3}) {
    const Placement placement = place(stage, Reduce::kAuto, 1);
    EXPECT_EQ(state_bytes(units, 2, placement, spec).moment, 4 * (60 + 40) + 4 * 64 / (stage == 0 ? 1 : 2)) << stage;
    EXPECT_EQ(state_bytes(units, 2, placement, spec, Tier::kHost).moment, 0) << stage;
    EXPECT_EQ(update_sent_bytes(units[0], 2, placement), 50 * 200) << stage;
    EXPECT_EQ(update_sent_bytes(units[1], 2, placement), 0) << stage;
    EXPECT_DOUBLE_EQ(update_sent_formula_bytes(units[0], 2, placement), 50 * 200) << stage;
    EXPECT_EQ(sent_bytes(units, 2, placement), (stage == 3 ? 3 : 2) * (2400 + 64) * 4 / 2 + 50 * 200) << stage;
  }
  EXPECT_EQ(update_sent_bytes(units[0], 3, place(3, Reduce::kAuto, 1)), 2 * 34 * 200) << "blocks are padded";
}

}  // namespace
}  // namespace zero
