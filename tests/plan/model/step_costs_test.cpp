#include "zero/plan/model/step_costs.h"

#include <gtest/gtest.h>

#include "tests/plan/one_unit.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

StepModel model_of(int stage, int accumulate = 1) {
  return {.world = 2,
          .placement = place(stage, Reduce::kAuto, accumulate),
          .rates = {.link_up = 1, .link_down = 1, .requests = {.disk = {.read = 1, .write = 1}}, .update_numel = 1}};
}

double amount(const Amounts& amounts, Amount which) {
  return amounts[index_of(which)];
}

TEST(StepCosts, ElementsHaveTheirStatesBytes) {
  const StepModel model = model_of(2);
  EXPECT_EQ(element_bytes(model, one_unit(1, DType::kFloat32)), (ElementBytes{4, 4, 8}));
  EXPECT_EQ(element_bytes(model, one_unit(1, DType::kBFloat16)), (ElementBytes{2, 2, 12}));
  EXPECT_EQ(element_bytes(model, one_unit(1, DType::kBFloat16, 0, /*trainable=*/false)), (ElementBytes{2, 0, 0}));
  EXPECT_EQ(element_bytes(model_of(2, 4), one_unit(1, DType::kBFloat16)), (ElementBytes{2, 4, 12}));
  StepModel plain_sgd = model;
  plain_sgd.optimizer = fp32_states(0);
  EXPECT_EQ(element_bytes(plain_sgd, one_unit(1, DType::kFloat32)), (ElementBytes{4, 4, 0}));
}

// Parts of the states are on other tiers than the tier of the update, above or below it.
TEST(StepCosts, CountsPartsAroundTheUpdate) {
  const UnitTiers tiers{{.device = 10, .disk = 90}, {.device = 60, .host = 40}, {.device = 30, .host = 30, .disk = 40}};
  const Amounts amounts = amounts_of(model_of(3), one_unit(200, DType::kFloat32), tiers);
  EXPECT_EQ(amount(amounts, Amount::kGradientAbove), 30);
  EXPECT_EQ(amount(amounts, Amount::kGradientBelow), 0);
  EXPECT_EQ(amount(amounts, Amount::kParameterAbove), 0);
  EXPECT_EQ(amount(amounts, Amount::kParameterBelow), 20);
  EXPECT_EQ(amount(amounts, on(Amount::kParameter, Tier::kDisk)), 90);
  EXPECT_EQ(amount(amounts, on(Amount::kGradient, Tier::kHost)), 40);
  EXPECT_EQ(amount(amounts, on(Amount::kOptimizer, Tier::kHost)), 30);
  EXPECT_EQ(amount(amounts, on(Amount::kOptimizer, Tier::kDisk)), 40);
  EXPECT_EQ(amount(amounts, Amount::kUpdated), 100);
}

TEST(StepCosts, WholeStateCountsUpdatedPart) {
  // Stage 1: 200 whole elements, of which this rank updates 100.
  const UnitTiers tiers{{.device = 200}, {.device = 200}, {.device = 40, .host = 60}};
  const Amounts amounts = amounts_of(model_of(1), one_unit(200, DType::kFloat32), tiers);
  EXPECT_EQ(amount(amounts, Amount::kGradientAbove), 60);
  EXPECT_EQ(amount(amounts, Amount::kParameterAbove), 60);
  EXPECT_EQ(amount(amounts, Amount::kParameterBelow), 0);
}

TEST(StepCosts, CostsIgnoreUnitSize) {
  EXPECT_EQ(costs_of(model_of(3), one_unit(64, DType::kBFloat16)),
            costs_of(model_of(3), one_unit(1 << 30, DType::kBFloat16)));
  EXPECT_NE(costs_of(model_of(3), one_unit(64, DType::kBFloat16)),
            costs_of(model_of(3), one_unit(64, DType::kFloat32)));
}

// A frozen unit is neither offloaded nor updated.
TEST(StepCosts, FrozenUnitHasNoUpdateCosts) {
  const Unit frozen = one_unit(64, DType::kFloat32, 0, /*trainable=*/false);
  const StepCosts costs = costs_of(model_of(3), frozen);
  for (int amount = static_cast<int>(on(Amount::kGradient, Tier::kHost)); amount < kNumAmounts; ++amount)
    EXPECT_EQ(costs[static_cast<std::size_t>(amount)], BusySeconds{}) << amount;
  const Amounts amounts = amounts_of(model_of(3), frozen, {.parameter = {.device = 16, .host = 16}});
  EXPECT_EQ(amount(amounts, on(Amount::kParameter, Tier::kHost)), 16);
  EXPECT_EQ(amount(amounts, Amount::kParameterAbove), 0);
}

}  // namespace
}  // namespace zero
