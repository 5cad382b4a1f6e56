// Secondary parts in plans: which rank keeps which part, which gathers use only a group, and the bytes of both.
#include "zero/plan/units/secondary.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/cluster/cluster.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/schedule/demand.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/units/estimate.h"

#include "tests/plan/gpt_like.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr GatherBudget kMinKeeping{.capacity_bytes = GatherBudget::kMin, .keeps_parts = true};

Placement with_groups_of(int group, int accumulate = 1) {
  Placement placement = place(3, Reduce::kAuto, accumulate);
  placement.secondary_group = group;
  return placement;
}

TEST(Secondary, PartsTileUnitInEachGroup) {
  for (const Unit& unit : gpt_units({.layers = 2})) {
    for (const auto& [world, group] : {std::pair{4, 2}, {6, 2}, {6, 3}, {64, 8}}) {
      std::int64_t end = 0;
      for (int rank = 0; rank < world; ++rank) {
        if (rank % group == 0) end = 0;
        const Shard part = secondary_part(unit, rank, world, group);
        EXPECT_EQ(part.offset, end);
        EXPECT_EQ(part.numel * static_cast<std::int64_t>(size_of(unit.dtype)),
                  secondary_part_bytes(unit, world, group));
        end += part.numel;
        if (rank % group == group - 1) {
          EXPECT_EQ(end, padded_numel(unit, world));
        }
      }
    }
  }
}

TEST(Secondary, RefusesInvalidGroup) {
  EXPECT_NO_THROW(require_secondary_group(4, 0));
  EXPECT_NO_THROW(require_secondary_group(4, 2));
  for (const int group : {-1, 3, 4, 5})
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { require_secondary_group(4, group); }), "4 ranks hold one copy of the model"))
        << group;
}

// For each unit, the ways of its gathers in the order of the step.
std::vector<std::vector<GatherWay>> ways_of(const Schedule& schedule, std::size_t num_units) {
  std::vector<std::vector<GatherWay>> ways(num_units);
  for (const ScheduleEntry& entry : schedule.entries) {
    for (const Action& action : entry.actions)
      if (action.kind == ActionKind::kGather) ways[static_cast<std::size_t>(action.unit)].push_back(action.way);
  }
  return ways;
}

// For any trace and budget, each unit is gathered over all ranks once, and later gathers use the kept parts. All other
// actions are those of plain stage 3.
RC_GTEST_PROP(Secondary, StepGathersUnitOnceOverAll, ()) {
  const auto units = gpt_units({.layers = *rc::gen::inRange(1, 5)});
  const auto order = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, static_cast<int>(units.size())));
  Trace trace;
  for (const int unit : order) trace.events.push_back({EventKind::kAccess, unit, {}});
  trace.events.push_back({EventKind::kStep, -1, {}});
  const int group = *rc::gen::element(2, 4);
  GatherBudget budget = kMinKeeping;
  if (*rc::gen::inRange(0, 3) > 0) budget.capacity_bytes = padded_bytes(units, 8) * *rc::gen::inRange(0, 11) / 10;
  const Schedule schedule = build_schedule(trace, units, 8, with_groups_of(group), budget);
  const ScheduleCost cost = simulate(schedule, units, 8);
  const auto ways = ways_of(schedule, units.size());
  std::int64_t over_all = 0, within = 0;
  for (const Unit& unit : units) {
    const auto& gathers = ways[static_cast<std::size_t>(unit.index)];
    if (gathers.empty()) continue;
    RC_ASSERT(gathers.front() == (gathers.size() > 1 ? GatherWay::kAllAndKeep : GatherWay::kAll));
    RC_ASSERT(std::count(gathers.begin(), gathers.end(), GatherWay::kParts) + 1 == std::ssize(gathers));
    over_all += gather_bytes(unit, 8, WireCodec::kNone);
    within += (std::ssize(gathers) - 1) * part_gather_bytes(unit, 8, group);
  }
  RC_ASSERT(cost.sent_bytes == over_all + within);
  RC_ASSERT(cost.part_sent_bytes == within);
  budget.keeps_parts = false;
  Schedule plain = build_schedule(trace, units, 8, with_groups_of(group), budget);
  for (std::size_t at = 0; at < plain.entries.size(); ++at) {
    std::vector<Action> actions = schedule.entries[at].actions;
    for (Action& action : actions) action.way = GatherWay::kAll;
    RC_ASSERT(actions == plain.entries[at].actions);
  }
}

TEST(Secondary, MinBudgetSendsEstimatedBytes) {
  const auto units = gpt_units({.layers = 3, .dtype = DType::kBFloat16});
  for (const int k : {1, 3}) {
    const Placement placement = with_groups_of(4, k);
    const ScheduleCost cost =
        simulate(build_schedule(straight_trace(units, k), units, 8, placement, kMinKeeping), units, 8);
    EXPECT_EQ(cost.sent_bytes, sent_bytes(units, 8, placement)) << k;
    EXPECT_EQ(cost.part_sent_bytes, part_sent_bytes(units, 8, placement)) << k;
    EXPECT_EQ(cost.num_gathers - cost.num_part_gathers, std::ssize(units));
    double formula = 0, of_parts = 0;
    for (const Unit& unit : units) {
      formula += sent_formula_bytes(padded_numel(unit, 8), 8, placement, unit.dtype);
      of_parts += part_formula_bytes(padded_numel(unit, 8), placement, unit.dtype);
    }
    EXPECT_DOUBLE_EQ(formula, static_cast<double>(cost.sent_bytes));
    EXPECT_DOUBLE_EQ(of_parts, static_cast<double>(cost.part_sent_bytes));
  }
}

// Shards below the device are fetched only for the gather over all ranks.
TEST(Secondary, OffDeviceShardsAreFetchedOnce) {
  const auto units = gpt_units({.layers = 3});
  Placement placement = with_groups_of(2, 2);
  spread_over_tiers(placement, units, 4, {.parameter = {.disk = 1}});
  for (const GatherBudget& budget :
       {kMinKeeping,
        GatherBudget{.capacity_bytes = padded_bytes(units, 4) / 2, .overlaps_updates = true, .keeps_parts = true}}) {
    const Schedule schedule = build_schedule(straight_trace(units, 2), units, 4, placement, budget);
    EXPECT_EQ(simulate(schedule, units, 4).num_prefetches, std::ssize(units));
    StepProfile profile;
    count_gathers(schedule, units.size(), profile);
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      EXPECT_EQ(profile.forward_gathers[unit] + profile.backward_gathers[unit], 1);
  }
}

TEST(Secondary, RefusesGatherOfUnkeptParts) {
  const auto units = gpt_units({.layers = 2});
  Schedule schedule = build_schedule(straight_trace(units), units, 4, with_groups_of(2), kMinKeeping);
  for (ScheduleEntry& entry : schedule.entries)
    for (Action& action : entry.actions)
      if (action.way == GatherWay::kAllAndKeep) action.way = GatherWay::kAll;
  EXPECT_THROW(simulate(schedule, units, 4), InternalError);
}

TEST(Secondary, DemandKeepsThenGathersParts) {
  const auto units = gpt_units({.layers = 2});
  const Residency nothing(units, 4);
  const Event access{EventKind::kAccess, 1, {}};
  const auto way = [&](const GatherBudget& budget, bool kept) {
    const Holdings held{.gathered = nothing, .kept = [kept](int) { return kept; }};
    return Demand(units, 4, with_groups_of(2), budget).actions(access, held, {}).front().way;
  };
  EXPECT_EQ(way(kMinKeeping, false), GatherWay::kAllAndKeep);
  EXPECT_EQ(way(kMinKeeping, true), GatherWay::kParts);
  EXPECT_EQ(way({}, true), GatherWay::kAll) << "there is room for all weights";
}

TEST(Secondary, ScheduleNamesGatherGroup) {
  const auto units = gpt_units({.layers = 1});
  const Placement placement = with_groups_of(2);
  const auto text = [&](GatherWay way) { return describe({ActionKind::kGather, 1, way}, units, placement); };
  EXPECT_EQ(text(GatherWay::kAllAndKeep), text(GatherWay::kAll) + " and keep a part");
  EXPECT_EQ(text(GatherWay::kParts), text(GatherWay::kAll) + " within 2 ranks");
}

// On two machines of four ranks, all gathers of a unit but one stay within a machine.
TEST(Secondary, PartsNeverLeaveTheirMachine) {
  const auto units = gpt_units({.layers = 2});
  const Cluster cluster{.hosts = 2, .ranks = 4, .network = 1e9, .latency = 1e-3};
  const Placement plain = place(3, Reduce::kAuto, 1), placement = with_groups_of(4);
  const Mesh mesh = mesh_of(8, 0);
  const Exchange without = exchange_of_step(units, mesh, plain, cluster),
                 with = exchange_of_step(units, mesh, placement, cluster);
  const double gathered = 4 * static_cast<double>(sent_between_groups(
                                  sent_bytes(units, 8, placement) - part_sent_bytes(units, 8, placement), 8, 4));
  EXPECT_DOUBLE_EQ(with.leaving, gathered);
  EXPECT_DOUBLE_EQ(without.leaving / with.leaving, 1.5) << "a reduction and two gathers, or one";
  EXPECT_LT(with.delay, without.delay);
  EXPECT_GT(with.within, without.within);
}

}  // namespace
}  // namespace zero
