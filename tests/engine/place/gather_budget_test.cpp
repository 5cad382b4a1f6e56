// gather_budget(): the part of a budget that is left for gathered units. require_disk() and tiles_ahead(): states that
// must be on disk and host fit there.
#include "zero/engine/place/gather_budget.h"

#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/wire/gradient_staging.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_model.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

struct Plan {
  int stage = 3;
  int world = 2;
  int accumulate = 1;
  Reduce reduce = Reduce::kAuto;
  std::vector<Unit> units = make_units(small_specs(), {});

  Placement placement() const { return place(stage, reduce, accumulate); }
  std::int64_t state() const { return state_bytes(units, world, placement(), fp32_states(2)).total(); }
  std::int64_t largest() const {
    std::int64_t bytes = 0;
    for (const Unit& unit : units) bytes = std::max(bytes, gathered_bytes(unit, world));
    return bytes;
  }
  // Two units have one parameter each. This is the smaller one. Its gradient may be complete before its turn.
  std::int64_t alone() const { return gathered_bytes(units.back(), world); }
  GatherBudget budget(const MemoryBudget& memory, std::int64_t free_bytes = kPlenty) const {
    return gather_budget(memory, units, world, placement(), fp32_states(2), stage, free_bytes);
  }
  GatherBudget budget(std::int64_t bytes) const { return budget({MemoryBudget::Kind::kBytes, bytes}); }
  std::string refusal(const MemoryBudget& memory, std::int64_t free_bytes = kPlenty) const {
    try {
      budget(memory, free_bytes);
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.device_memory");
      return error.what();
    }
    return "";
  }
};

// The minimum holds however much memory is free.
TEST(Budget, MinStaysStrict) {
  EXPECT_TRUE(Plan{}.budget({MemoryBudget::Kind::kMin}).is_min());
}

// An automatic budget may become the minimum if the caller permits it.
TEST(Budget, AutoMayFallToTheMinimum) {
  const Plan plan;
  EXPECT_FALSE(plan.refusal({}, 1).empty());
  EXPECT_TRUE(
      gather_budget({}, plan.units, plan.world, plan.placement(), fp32_states(2), 3, 1, /*or_least=*/true).is_min());
  EXPECT_THROW(gather_budget({MemoryBudget::Kind::kBytes, 1}, plan.units, plan.world, plan.placement(), fp32_states(2),
                             3, 1, true),
               ConfigError)
      << "a budget that is given counts";
}

TEST(Budget, DevicePassOverlapsTheHostUpdate) {
  const Plan plan;
  const auto overlaps = [&](bool apart, const StateFractions& fractions, int stage = 3) {
    Placement placement = place(stage, Reduce::kAuto, 1);
    placement.device_is_apart = apart;
    spread_over_tiers(placement, plan.units, plan.world, fractions);
    return overlaps_updates(placement, plan.units, plan.world, fp32_states(2), {});
  };
  EXPECT_TRUE(overlaps(true, {.optimizer = {.host = 1}}));
  EXPECT_FALSE(overlaps(true, {})) << "the device updates";
  EXPECT_FALSE(overlaps(false, {.optimizer = {.host = 1}})) << "the host computes the pass";
  EXPECT_TRUE(overlaps(false, {.optimizer = {.disk = 1}}));
  EXPECT_FALSE(overlaps(true, {.optimizer = {.host = 1}}, 2)) << "operators use weights that stay where they are";
}

// A linked sum stages at most 64 MiB, or twice the largest gradient if that is less.
TEST(Budget, LinkedSumsStageInTheBudget) {
  Plan plan;
  Placement linked = plan.placement();
  linked.linked = true;
  const auto staged = [&](const Placement& placement, bool min) {
    return staging_bytes(plan.units, plan.world, placement, min);
  };
  for (const bool min : {false, true}) {
    const std::int64_t more = linked_bytes(plan.units, plan.world, linked, min);
    EXPECT_GT(more, 0);
    EXPECT_EQ(staged(linked, min), staged(plan.placement(), min) + more);
  }
  const std::int64_t least = plan.state() + plan.largest() + staged(plan.placement(), true);
  const auto budget = [&](const Placement& placement, std::int64_t bytes) {
    return gather_budget({MemoryBudget::Kind::kBytes, bytes}, plan.units, plan.world, placement, fp32_states(2), 3, 0);
  };
  EXPECT_NO_THROW(budget(plan.placement(), least));
  EXPECT_THROW(budget(linked, least), ConfigError);
  EXPECT_NO_THROW(budget(linked, least + linked_bytes(plan.units, plan.world, linked, true)));

  plan.units = make_units({{.name = "w", .shape = {64 << 20}}}, {});
  const std::int64_t statistics = 16 << 10;
  EXPECT_EQ(linked_bytes(plan.units, 2, linked, false), (64 << 20) + statistics);
  EXPECT_EQ(linked_bytes(plan.units, 2, linked, true), (8 << 20) + statistics);
  linked.sums = RankSums::kLinked;
  EXPECT_EQ(linked_bytes(plan.units, 2, linked, false), statistics) << "the link adds in place";
}

// If the device has its own memory, copies sum on the host.
TEST(Budget, CopiesSumOnTheHost) {
  const Plan plan;
  Placement copies = plan.placement();
  const std::int64_t once = staging_bytes(plan.units, plan.world, copies, false);
  copies.copies = 2;
  EXPECT_GT(staging_bytes(plan.units, plan.world, copies, false), once);
  copies.device_is_apart = true;
  EXPECT_EQ(staging_bytes(plan.units, plan.world, copies, false), once);
}

// Gathered units get the rest of the budget, after states and staging.
TEST(Budget, RemainderHoldsGatheredUnits) {
  const Plan plan;
  const std::int64_t bytes = plan.state() + 2 * plan.largest() + 5000;
  EXPECT_EQ(plan.budget(bytes).capacity_bytes, 5000);
}

TEST(Budget, AutoTakesWhatIsFree) {
  const Plan plan;
  const std::int64_t free = plan.state() + 2 * plan.largest() + 7000;
  EXPECT_EQ(plan.budget({MemoryBudget::Kind::kAuto}, free).capacity_bytes, 7000);
}

// The minimum is one gathered unit and one staged unit.
TEST(Budget, MinimumIsTwoUnits) {
  const Plan plan;
  ASSERT_EQ(plan.units.back().slices.size(), 1u);
  const std::int64_t least = plan.state() + 2 * plan.largest() + plan.alone();
  EXPECT_TRUE(plan.budget(least).is_min());
  const std::string refusal = plan.refusal({MemoryBudget::Kind::kBytes, least - 1});
  EXPECT_NE(refusal.find(format_bytes(least)), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("more ranks"), std::string::npos) << refusal;
}

// A budget is more than the minimum if it holds the largest unit beside states and staging.
TEST(Budget, LessThanOneUnitIsMinimum) {
  const Plan plan;
  EXPECT_TRUE(plan.budget(plan.state() + 3 * plan.largest() - 1).is_min());
  EXPECT_FALSE(plan.budget(plan.state() + 3 * plan.largest()).is_min());
}

// The refusal names the next stage and the bytes that it needs.
TEST(Budget, RefusalNamesTheNextStage) {
  for (int stage = 0; stage <= 2; ++stage) {
    Plan cheaper;
    cheaper.stage = stage + 1;
    const std::int64_t needs =
        cheaper.state() + (stage >= 1 ? cheaper.largest() + cheaper.alone() : 0) + (stage == 2 ? cheaper.largest() : 0);
    Plan plan;
    plan.stage = stage;
    const std::string refusal = plan.refusal({MemoryBudget::Kind::kBytes, 100});
    const std::string wanted = fmt::format("stage {} needs {} B ({})", stage + 1, needs, format_bytes(needs));
    EXPECT_NE(refusal.find(wanted), std::string::npos) << refusal << "\nwanted: " << wanted;
  }
}

TEST(Budget, AutoSaysHowLittleIsFree) {
  const std::string refusal = Plan{}.refusal({MemoryBudget::Kind::kAuto}, 1234);
  EXPECT_NE(refusal.find("auto"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find(format_bytes(1234)), std::string::npos) << refusal;
}

// Whole gradients have the type of their parameters.
TEST(Budget, SameTypeGradientsNeedNoStaging) {
  Plan plan;
  plan.stage = 1;
  EXPECT_NO_THROW(plan.budget(plan.state()));
  EXPECT_NE(plan.refusal({MemoryBudget::Kind::kBytes, plan.state() - 1}), "");
  plan.accumulate = 2;  // summed in fp32 beside the gradients that cross
  EXPECT_NE(plan.refusal({MemoryBudget::Kind::kBytes, plan.state()}), "");
}

TEST(Budget, FrozenUnitsAreGatheredNotStaged) {
  Plan plan;
  plan.units = make_units({{.name = "a", .shape = {16}}, {.name = "frozen", .shape = {4096}, .trainable = false}}, {});
  plan.world = 1;
  EXPECT_NO_THROW(plan.budget(plan.state() + 4096 * 4 + 16 * 4));
  EXPECT_NE(plan.refusal({MemoryBudget::Kind::kBytes, plan.state() + 4096 * 4 + 16 * 4 - 1}), "");
}

std::string key_refused(const OffloadOptions& options, std::int64_t bytes) {
  try {
    require_disk(options, bytes);
  } catch (const ConfigError& error) {
    return error.key();
  }
  return "";
}

// The check reads the budget, not the disk.
TEST(RequireDisk, NeedsFolderAndRoom) {
  EXPECT_EQ(key_refused({}, 0), "") << "no state goes to disk";
  EXPECT_EQ(key_refused({}, 1), "zero.disk");
  EXPECT_EQ(key_refused({.disk = {"/not/here"}}, kPlenty), "");
  EXPECT_EQ(key_refused({.disk = {"/not/here"}, .disk_memory = 4096}, 4096), "");
  EXPECT_EQ(key_refused({.disk = {"/not/here"}, .disk_memory = 4096}, 4097), "zero.disk_memory");
}

TEST(TilesAhead, HostBudgetHoldsItsStatesExactly) {
  const Plan plan;
  Placement placement = plan.placement();
  spread_over_tiers(placement, plan.units, plan.world, {.optimizer = {.host = 1}});
  const std::int64_t host = state_bytes(plan.units, plan.world, placement, fp32_states(2), Tier::kHost).total();
  const auto ahead = [&](std::int64_t bytes) {
    return tiles_ahead({MemoryBudget::Kind::kBytes, bytes}, plan.units, plan.world, placement, placement,
                       fp32_states(2), kPlenty);
  };
  EXPECT_GT(host, 0);
  EXPECT_GE(ahead(host), 1);
  EXPECT_THROW(ahead(host - 1), ConfigError);
}

}  // namespace
}  // namespace zero
