#include "zero/plan/schedule/schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/estimate.h"

#include "tests/plan/gpt_like.h"

namespace zero {
namespace {

constexpr GatherBudget kMinBudget{GatherBudget::kMin};

std::vector<Unit> equal_units(int count, std::int64_t numel = 64) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < count; ++i) specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {numel}});
  return make_units(specs, {});
}

Trace accesses(const std::vector<int>& order) {
  Trace trace;
  for (const int unit : order) trace.events.push_back({EventKind::kAccess, unit, {}});
  trace.events.push_back({EventKind::kStep, -1, {}});
  return trace;
}

ScheduleCost cost_of(const Trace& trace, const std::vector<Unit>& units, int world, int stage, GatherBudget budget) {
  return simulate(build_schedule(trace, units, world, place(stage, Reduce::kAuto, 1), budget), units, world);
}

// P(N-1)/N in bytes, padding included.
std::int64_t pass_bytes(const std::vector<Unit>& units, int world) {
  return padded_bytes(units, world) / world * (world - 1);
}

TEST(Schedule, TheMinBudgetSendsThreePasses) {
  for (const int world : {1, 2, 3, 8, 1024}) {
    const auto units = gpt_units({.layers = 5, .dtype = DType::kBFloat16});
    EXPECT_EQ(cost_of(straight_trace(units), units, world, 3, kMinBudget).sent_bytes, 3 * pass_bytes(units, world));
  }
}

TEST(Schedule, KeepingAllSendsTwoPasses) {
  const auto units = gpt_units({.layers = 5});
  EXPECT_EQ(cost_of(straight_trace(units), units, 4, 3, {}).sent_bytes, 2 * pass_bytes(units, 4));
}

// Stages 0 to 2 send two passes under any budget.
TEST(Schedule, StagesToTwoSendTwoPasses) {
  const auto units = gpt_units({.layers = 5});
  for (int stage = 0; stage <= 2; ++stage) {
    for (const GatherBudget budget : {GatherBudget{}, kMinBudget}) {
      EXPECT_EQ(cost_of(straight_trace(units), units, 4, stage, budget).sent_bytes, 2 * pass_bytes(units, 4)) << stage;
    }
  }
}

// Stage 3 sends between two and three passes, depending on the budget.
TEST(Schedule, BudgetsBetweenSendTwoToThree) {
  const auto units = gpt_units({.layers = 9});
  std::int64_t before = 3 * pass_bytes(units, 4);
  for (int tenth = 3; tenth <= 10; ++tenth) {
    const GatherBudget budget{padded_bytes(units, 4) * tenth / 10};
    const ScheduleCost cost = cost_of(straight_trace(units), units, 4, 3, budget);
    EXPECT_LE(cost.sent_bytes, before) << "more memory, more sent";
    EXPECT_LE(cost.gathered_peak_bytes, budget.capacity_bytes);
    before = cost.sent_bytes;
  }
  EXPECT_EQ(before, 2 * pass_bytes(units, 4));
}

// Under the min budget the tied head is gathered twice more.
TEST(Schedule, TiedHeadIsGatheredTwiceMore) {
  const auto units = gpt_units({.layers = 3});
  const std::int64_t embedding = gathered_bytes(units[0], 4) / 4 * 3;
  EXPECT_EQ(cost_of(tied_trace(units), units, 4, 3, kMinBudget).sent_bytes, 3 * pass_bytes(units, 4) + 2 * embedding);
}

TEST(Schedule, MicroBatchesSendEstimatedBytes) {
  const auto units = gpt_units({.layers = 3, .dtype = DType::kBFloat16});
  for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    for (const int k : {1, 3}) {
      for (int stage = 0; stage <= 3; ++stage) {
        const Placement placement = place(stage, reduce, k);
        const Schedule schedule = build_schedule(straight_trace(units, k), units, 4, placement, kMinBudget);
        EXPECT_EQ(simulate(schedule, units, 4).sent_bytes, sent_bytes(units, 4, placement)) << stage << " " << k;
      }
    }
  }
}

// The last unit of the backward pass is the first unit of the next forward pass. Under the min budget it is still
// released, so each micro-batch gathers it twice.
TEST(Schedule, LoneUnitIsGatheredTwice) {
  const auto units = equal_units(1);
  const Schedule schedule = build_schedule(straight_trace(units, 3), units, 2, place(3, Reduce::kEach, 3), kMinBudget);
  EXPECT_EQ(simulate(schedule, units, 2).num_gathers, 6);
}

// The min budget holds one unit at a time.
TEST(Schedule, MinimumHoldsOneUnit) {
  const auto units = equal_units(6);
  const std::int64_t one = gathered_bytes(units[0], 2);
  EXPECT_EQ(cost_of(straight_trace(units), units, 2, 3, kMinBudget).gathered_peak_bytes, one);
}

TEST(Schedule, MinimumReleasesUnpinnedUnits) {
  const auto units = equal_units(3);
  Trace trace = accesses({0, 1, 0, 2});
  trace.events[1].pinned = {0};
  const Schedule schedule = build_schedule(trace, units, 2, place(3, Reduce::kAuto, 1), kMinBudget);
  EXPECT_EQ(simulate(schedule, units, 2).gathered_peak_bytes, 2 * gathered_bytes(units[0], 2));
  EXPECT_EQ(schedule.entries[1].actions, (std::vector<Action>{{ActionKind::kGather, 1}}));
  EXPECT_EQ(schedule.entries[2].actions, (std::vector<Action>{{ActionKind::kRelease, 1}})) << "0 is still there";
}

TEST(Schedule, EvictsUnitNeededLast) {
  const auto units = equal_units(3);
  const GatherBudget two{2 * gathered_bytes(units[0], 2)};
  const Schedule schedule = build_schedule(accesses({0, 1, 2, 1, 0}), units, 2, place(3, Reduce::kAuto, 1), two);
  EXPECT_EQ(schedule.entries[1].actions, (std::vector<Action>{{ActionKind::kRelease, 0}, {ActionKind::kGather, 2}}))
      << "1 comes back before 0";
  EXPECT_EQ(simulate(schedule, units, 2).num_gathers, 4);
}

TEST(Schedule, PrefetchCostsNoOtherGather) {
  const auto units = equal_units(3);
  const GatherBudget two{2 * gathered_bytes(units[0], 2)};
  // At the first access of 0, unit 1 is held and needed again before 0. Its release in favour of 2 would cost a gather.
  const Schedule schedule = build_schedule(accesses({1, 0, 2, 1, 2, 1}), units, 2, place(3, Reduce::kAuto, 1), two);
  EXPECT_TRUE(schedule.entries[1].actions.empty()) << print_schedule(schedule, units);
  EXPECT_EQ(simulate(schedule, units, 2).num_gathers, 3);
}

TEST(Schedule, PrefetchServesNextAccessOnly) {
  const auto units = equal_units(100);
  const GatherBudget all_but_one{99 * gathered_bytes(units[0], 2)};
  const Schedule schedule = build_schedule(straight_trace(units), units, 2, place(3, Reduce::kAuto, 1), all_but_one);
  for (std::size_t at = 0; at < schedule.entries.size(); ++at) {
    for (const Action& action : schedule.entries[at].actions) {
      if (action.kind != ActionKind::kGather || action.unit == schedule.entries[at].event.unit) continue;
      auto next = schedule.entries.begin() + static_cast<std::ptrdiff_t>(at) + 1;
      while (next->event.kind != EventKind::kAccess) ++next;
      EXPECT_EQ(next->event.unit, action.unit) << "it would stay open over many collectives";
    }
  }
}

// The schedule of the first step has no entries.
TEST(Schedule, FirstStepReducesInReverse) {
  const auto units = gpt_units({.layers = 2});
  const Schedule schedule = build_schedule({}, units, 2, place(3, Reduce::kAuto, 1), {});
  EXPECT_TRUE(schedule.entries.empty());
  EXPECT_EQ(schedule.reduce_order, (std::vector<int>{4, 3, 2, 1, 0}));
}

TEST(Schedule, ReducesGradientsInCompletionOrder) {
  const auto units = equal_units(4);
  Trace trace;
  trace.events.push_back({EventKind::kBackward, -1, {}});
  for (const int unit : {1, 3, 1}) trace.events.push_back({EventKind::kGradient, unit, {}});
  EXPECT_EQ(build_schedule(trace, units, 2, place(2, Reduce::kAuto, 1), {}).reduce_order,
            (std::vector<int>{1, 3, 2, 0}))
      << "units that were never accessed are last, in reverse order";
}

// A frozen unit is never reduced or updated.
TEST(Schedule, FrozenUnitsAreOnlyGathered) {
  std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {8}}, {.name = "h.1.w", .shape = {8}, .trainable = false}};
  const auto units = make_units(specs, {});
  const Schedule schedule = build_schedule(straight_trace(units), units, 2, place(3, Reduce::kAuto, 1), {});
  EXPECT_EQ(schedule.reduce_order, std::vector<int>{0});
  EXPECT_EQ(schedule.step, (std::vector<Action>{{ActionKind::kUpdate, 0}}));
  EXPECT_EQ(simulate(schedule, units, 2).num_gathers, 2);
}

// With Reduce::kLast only the last micro-batch reduces.
TEST(Schedule, ReduceLastWaitsForFinalBatch) {
  const auto units = equal_units(2);
  const auto reduces_by_pass = [&](Reduce reduce) {
    const Schedule schedule = build_schedule(straight_trace(units, 3), units, 2, place(2, reduce, 3), {});
    std::vector<int> counts(3, 0);
    std::size_t pass = 0;
    for (const ScheduleEntry& entry : schedule.entries) {
      for (const Action& action : entry.actions) counts[pass] += action.kind == ActionKind::kReduce ? 1 : 0;
      if (entry.event.kind == EventKind::kEndBackward) ++pass;
    }
    return counts;
  };
  EXPECT_EQ(reduces_by_pass(Reduce::kEach), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(reduces_by_pass(Reduce::kLast), (std::vector<int>{0, 0, 2}));
}

TEST(Schedule, TheStepOfEachStage) {
  const auto units = equal_units(1);
  const auto step_at = [&](int stage) { return build_schedule({}, units, 2, place(stage, Reduce::kAuto, 1), {}).step; };
  EXPECT_EQ(step_at(0), (std::vector<Action>{{ActionKind::kGatherGradient, 0}, {ActionKind::kUpdate, 0}}));
  EXPECT_EQ(step_at(1), (std::vector<Action>{{ActionKind::kUpdate, 0}, {ActionKind::kGather, 0}}));
  EXPECT_EQ(step_at(2), step_at(1));
  EXPECT_EQ(step_at(3), (std::vector<Action>{{ActionKind::kUpdate, 0}}));
}

TEST(Schedule, UpdatesFollowNextForwardsOrder) {
  const auto units = equal_units(5);
  Trace trace = accesses({2, 0, 2, 3});
  trace.events.insert(trace.events.begin() + 4, {EventKind::kBackward, -1, {}});
  trace.events.insert(trace.events.begin() + 5, {EventKind::kAccess, 1, {}});
  const auto updated = [&](const Trace& recorded, int stage) {
    std::vector<int> order;
    for (const Action& action : build_schedule(recorded, units, 2, place(stage, Reduce::kAuto, 1), {}).step) {
      if (action.kind == ActionKind::kUpdate) order.push_back(action.unit);
    }
    return order;
  };
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_EQ(updated(trace, stage), (std::vector<int>{2, 0, 3, 1, 4})) << "4 is never accessed";
    EXPECT_EQ(updated({}, stage), (std::vector<int>{0, 1, 2, 3, 4})) << "nothing is known yet";
  }
  const Schedule whole = build_schedule(trace, units, 2, place(1, Reduce::kAuto, 1), {});
  EXPECT_EQ(whole.step.at(0), (Action{ActionKind::kUpdate, 2}));
  EXPECT_EQ(whole.step.at(1), (Action{ActionKind::kGather, 2})) << "each unit's gather follows its update";
}

TEST(Schedule, PrintsOneLineAnEvent) {
  const auto units = gpt_units({.layers = 1});  // wte, wpe, h.0, root
  const std::vector<Unit> three(units.begin(), units.begin() + 3);
  const Schedule minimum = build_schedule(straight_trace(three), three, 2, place(3, Reduce::kAuto, 1), kMinBudget);
  EXPECT_EQ(print_schedule(minimum, three),
            "access wte.weight               | gather wte.weight\n"
            "access wpe.weight               | release wte.weight, gather wpe.weight\n"
            "access h.0                      | release wpe.weight, gather h.0\n"
            "backward                        | release h.0\n"
            "access h.0                      | gather h.0\n"
            "gradient h.0                    | reduce h.0\n"
            "access wpe.weight               | release h.0, gather wpe.weight\n"
            "gradient wpe.weight             | reduce wpe.weight\n"
            "access wte.weight               | release wpe.weight, gather wte.weight\n"
            "gradient wte.weight             | reduce wte.weight\n"
            "end of backward                 | release wte.weight\n"
            "step                            | update wte.weight, update wpe.weight, update h.0\n");
  const Schedule stage_0 = build_schedule(straight_trace({three[0]}), {three[0]}, 2, place(0, Reduce::kAuto, 1), {});
  EXPECT_EQ(print_schedule(stage_0, three),
            "access wte.weight               \n"
            "backward                        \n"
            "access wte.weight               \n"
            "gradient wte.weight             | reduce wte.weight\n"
            "end of backward                 \n"
            "step                            | gather gradient of wte.weight, update wte.weight\n");
}

TEST(Schedule, SimulationRefusesUngatheredReads) {
  const auto units = equal_units(2);
  Schedule schedule = build_schedule(accesses({0, 1, 0}), units, 2, place(3, Reduce::kAuto, 1), {});
  Schedule broken = schedule;
  broken.entries[0].actions.clear();
  EXPECT_THROW(simulate(broken, units, 2), InternalError);
  broken = schedule;
  broken.entries[1].actions = {{ActionKind::kRelease, 0}, {ActionKind::kRelease, 0}};
  EXPECT_THROW(simulate(broken, units, 2), InternalError);
  broken = schedule;
  broken.entries[1].actions.push_back({ActionKind::kGather, 1});
  EXPECT_THROW(simulate(broken, units, 2), InternalError) << "gathered twice";
}

TEST(Schedule, SimulationRefusesExceededBudget) {
  const auto units = equal_units(3);
  Schedule schedule = build_schedule(accesses({0, 1, 2}), units, 2, place(3, Reduce::kAuto, 1), {});
  EXPECT_NO_THROW(simulate(schedule, units, 2));
  schedule.budget = {2 * gathered_bytes(units[0], 2)};
  EXPECT_THROW(simulate(schedule, units, 2), InternalError);
  schedule.budget = kMinBudget;
  EXPECT_THROW(simulate(schedule, units, 2), InternalError);
}

// The model is GPT-2 XL.
TEST(Schedule, SimulatesThousandRanksAtEveryStage) {
  const auto units =
      gpt_units({.layers = 48, .width = 1600, .vocab = 50257, .context = 1024, .dtype = DType::kBFloat16});
  const Trace trace = tied_trace(units);
  const std::int64_t pass = pass_bytes(units, 1024);
  for (int stage = 0; stage <= 2; ++stage) EXPECT_EQ(cost_of(trace, units, 1024, stage, {}).sent_bytes, 2 * pass);
  EXPECT_EQ(cost_of(trace, units, 1024, 3, {}).sent_bytes, 2 * pass);
  const ScheduleCost minimum = cost_of(trace, units, 1024, 3, kMinBudget);
  EXPECT_EQ(minimum.sent_bytes, 3 * pass + 2 * (gathered_bytes(units[0], 1024) / 1024 * 1023));
  EXPECT_EQ(minimum.gathered_peak_bytes, gathered_bytes(units[0], 1024)) << "the embedding is the largest unit";
  const GatherBudget gigabyte{std::int64_t{1} << 30};
  const ScheduleCost some = cost_of(trace, units, 1024, 3, gigabyte);
  EXPECT_LE(some.gathered_peak_bytes, gigabyte.capacity_bytes);
  EXPECT_LT(some.sent_bytes, minimum.sent_bytes);
  EXPECT_GT(some.sent_bytes, 2 * pass);
}

// Operators nest: a unit that is in use at an access was in use or accessed at the previous access.
Trace random_trace(std::size_t num_units) {
  Trace trace;
  std::vector<int> in_use;
  const int count = *rc::gen::inRange(0, 60);
  for (int i = 0; i < count; ++i) {
    switch (*rc::gen::weightedElement<int>({{12, 0}, {1, 1}, {2, 2}, {1, 3}})) {
      case 1:
        trace.events.push_back({EventKind::kBackward, -1, {}});
        in_use.clear();
        break;
      case 2:
        trace.events.push_back({EventKind::kGradient, *rc::gen::inRange(0, static_cast<int>(num_units)), {}});
        break;
      case 3:
        trace.events.push_back({EventKind::kEndBackward, -1, {}});
        in_use.clear();
        break;
      default: {
        const int unit = *rc::gen::inRange(0, static_cast<int>(num_units));
        const auto keep = *rc::gen::inRange<std::size_t>(0, in_use.size() + 1);
        in_use.resize(keep);
        std::vector<int> pinned = in_use;
        std::sort(pinned.begin(), pinned.end());
        pinned.erase(std::unique(pinned.begin(), pinned.end()), pinned.end());
        trace.events.push_back({EventKind::kAccess, unit, pinned});
        in_use.push_back(unit);
      }
    }
  }
  trace.events.push_back({EventKind::kStep, -1, {}});
  return trace;
}

// simulate() throws if a schedule reads a unit that is not gathered or holds more than its budget.
RC_GTEST_PROP(Schedule, EveryScheduleReplaysWithinItsBudget, ()) {
  const auto units = gpt_units({.layers = *rc::gen::inRange(1, 6), .width = *rc::gen::inRange<std::int64_t>(1, 9)});
  const int world = *rc::gen::element(1, 2, 3, 7, 64, 1024);
  const int stage = *rc::gen::inRange(0, 4);
  const Trace trace = random_trace(units.size());
  std::int64_t largest = 0;
  std::int64_t all = 0;
  for (const Unit& unit : units) {
    largest = std::max(largest, gathered_bytes(unit, world));
    all += gathered_bytes(unit, world);
  }
  const bool minimum = *rc::gen::arbitrary<bool>();
  const GatherBudget budget{minimum ? GatherBudget::kMin : *rc::gen::inRange(largest, all + 1)};
  const Schedule schedule = build_schedule(trace, units, world, place(stage, Reduce::kAuto, 1), budget);
  const ScheduleCost cost = simulate(schedule, units, world);
  std::int64_t most_in_use = 0;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::kAccess) continue;
    std::int64_t bytes = 0;
    for (const int unit : event.pinned)
      bytes += unit == event.unit ? 0 : gathered_bytes(units[static_cast<std::size_t>(unit)], world);
    most_in_use = std::max(most_in_use, bytes + gathered_bytes(units[static_cast<std::size_t>(event.unit)], world));
  }
  if (stage < 3) {
    RC_ASSERT(cost.gathered_peak_bytes == 0);
  } else if (minimum) {
    RC_ASSERT(cost.gathered_peak_bytes == most_in_use);
  } else {
    RC_ASSERT(cost.gathered_peak_bytes <= std::max(budget.capacity_bytes, most_in_use));
  }
}

RC_GTEST_PROP(Schedule, NeverGathersMoreThanLru, ()) {
  const int num_units = *rc::gen::inRange(1, 8);
  const auto order = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, num_units));
  const auto capacity = *rc::gen::inRange(1, num_units + 1);
  int gathers = 0;
  std::vector<int> recent;  // the most recently used first
  for (const int unit : order) {
    const auto found = std::find(recent.begin(), recent.end(), unit);
    if (found != recent.end()) {
      recent.erase(found);
    } else {
      ++gathers;
      if (static_cast<int>(recent.size()) == capacity) recent.pop_back();
    }
    recent.insert(recent.begin(), unit);
  }
  const auto units = equal_units(num_units);
  const GatherBudget budget{capacity * gathered_bytes(units[0], 2)};
  RC_ASSERT(cost_of(accesses(order), units, 2, 3, budget).num_gathers <= gathers);
}

// The fetch of a unit overlaps with the computation of the unit before it.
TEST(Schedule, LowerTierFetchOverlapsComputation) {
  const auto units = equal_units(3, 100000);
  Placement placement = place(3, Reduce::kAuto, 1);
  spread_over_tiers(placement, units, 2, {.parameter = {.host = 1}});
  const Schedule schedule = build_schedule(accesses({0, 1, 2}), units, 2, placement, {});
  const std::vector<std::vector<Action>> wanted{
      {{ActionKind::kPrefetch, 0}, {ActionKind::kGather, 0}, {ActionKind::kPrefetch, 1}},
      {{ActionKind::kGather, 1}, {ActionKind::kPrefetch, 2}},
      {{ActionKind::kGather, 2}}};
  for (std::size_t at = 0; at < wanted.size(); ++at) EXPECT_EQ(schedule.entries[at].actions, wanted[at]) << at;
  EXPECT_EQ(simulate(schedule, units, 2).num_prefetches, 3);
  EXPECT_NE(print_schedule(schedule, units).find("gather h.1, prefetch h.2 from host"), std::string::npos);
}

// A gather ahead would wait for the last step's update of the unit, and the unit before it could not compute meanwhile.
// So a unit that is updated from a lower tier is gathered ahead only after its first gather.
TEST(Schedule, LowerTierPrefetchFollowsFirstGather) {
  const auto units = equal_units(3);
  const Trace trace = accesses({0, 1, 2, 1, 2});
  const auto gathers_at = [&](const StateFractions& fractions, bool overlaps_updates = true) {
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, units, 2, fractions);
    // The budget has room for two units.
    const Schedule schedule =
        build_schedule(trace, units, 2, placement,
                       {.capacity_bytes = 2 * gathered_bytes(units[0], 2), .overlaps_updates = overlaps_updates});
    std::vector<std::vector<int>> at(trace.events.size());
    for (std::size_t place = 0; place < at.size(); ++place) {
      for (const Action& action : schedule.entries[place].actions) {
        if (action.kind == ActionKind::kGather) at[place].push_back(action.unit);
      }
    }
    return at;
  };
  const std::vector<std::vector<int>> ahead{{0, 1}, {2}, {}, {}, {}, {}};
  const std::vector<std::vector<int>> in_turn{{0}, {1}, {2}, {}, {}, {}};
  EXPECT_EQ(gathers_at({}), ahead);
  EXPECT_EQ(gathers_at({.optimizer = {.disk = 1}}), in_turn);
  EXPECT_EQ(gathers_at({.gradient = {.host = 1}}), in_turn);
  EXPECT_EQ(gathers_at({.gradient = {.host = 1}}, /*overlaps_updates=*/false), ahead)
      << "the update ended before the step";
}

TEST(Schedule, SaysWhenUpdatesAreDone) {
  const auto units = equal_units(3);
  const auto built = [&](bool delayed, bool overlaps_updates) {
    return build_schedule(accesses({0, 1, 2}), units, 2, place(3, Reduce::kAuto, 1, delayed),
                          {.overlaps_updates = overlaps_updates});
  };
  EXPECT_FALSE(built(false, false).updates.overlapped);
  EXPECT_TRUE(built(false, true).updates.overlapped);
  EXPECT_FALSE(built(false, true).updates.delayed);
  EXPECT_TRUE(built(false, true).updates.free_from.empty());
  EXPECT_TRUE(built(true, false).updates.delayed);
}

TEST(Schedule, DelayedUpdateMayFollowLastUse) {
  const auto units = equal_units(3);
  Trace trace;
  for (const int unit : {0, 1, 2}) trace.events.push_back({EventKind::kAccess, unit, {}});
  trace.events.push_back({EventKind::kBackward, -1, {}});
  for (const int unit : {2, 1, 0}) {  // events 4 to 9
    trace.events.push_back({EventKind::kAccess, unit, {}});
    trace.events.push_back({EventKind::kGradient, unit, {}});
  }
  trace.events.push_back({EventKind::kStep, -1, {}});
  const Schedule schedule = build_schedule(trace, units, 2, place(3, Reduce::kAuto, 1, /*delayed_update=*/true), {});
  EXPECT_EQ(schedule.updates.free_from, (std::vector<std::size_t>{9, 7, 5}));
  Trace recomputed = trace;
  recomputed.events.insert(recomputed.events.end() - 1, {EventKind::kAccess, 2, {}});
  EXPECT_EQ(build_schedule(recomputed, units, 2, schedule.placement, {}).updates.free_from[2], 10U);
}

TEST(Schedule, FetchesUpToTheFlightLimit) {
  const auto units = equal_units(5, 100000);  // 50,000 elements of each are fetched
  Placement placement = place(3, Reduce::kAuto, 1);
  spread_over_tiers(placement, units, 2, {.parameter = {.disk = 1}});
  const auto prefetched_at = [&](std::int64_t numel) {  // the entry of each unit's prefetch
    const Schedule schedule =
        build_schedule(accesses({0, 1, 2, 3, 4}), units, 2, placement, {.prefetched_numel = numel});
    std::vector<std::size_t> at(units.size());
    for (std::size_t place = 0; place < schedule.entries.size(); ++place) {
      for (const Action& action : schedule.entries[place].actions) {
        if (action.kind == ActionKind::kPrefetch) at[static_cast<std::size_t>(action.unit)] = place;
      }
    }
    return at;
  };
  EXPECT_EQ(prefetched_at(0), (std::vector<std::size_t>{0, 0, 1, 2, 3}));
  EXPECT_EQ(prefetched_at(149'999), (std::vector<std::size_t>{0, 0, 0, 1, 2}));
  EXPECT_EQ(prefetched_at(150'000), (std::vector<std::size_t>{0, 0, 0, 0, 1}));
  EXPECT_EQ(prefetched_at(1'000'000), (std::vector<std::size_t>{0, 0, 0, 0, 0}));
}

// Under the min budget a unit is fetched only at its own gather.
TEST(Schedule, MinBudgetFetchesNothingAhead) {
  const auto units = equal_units(3, 100000);
  Placement placement = place(3, Reduce::kAuto, 1);
  spread_over_tiers(placement, units, 2, {.parameter = {.disk = 1}});
  const Schedule schedule = build_schedule(accesses({0, 1, 2}), units, 2, placement, kMinBudget);
  EXPECT_EQ(simulate(schedule, units, 2).num_prefetches, 3);
  for (const ScheduleEntry& entry : schedule.entries) {
    for (std::size_t at = 0; at < entry.actions.size(); ++at) {
      if (entry.actions[at].kind != ActionKind::kPrefetch) continue;
      EXPECT_EQ(entry.actions.at(at + 1), (Action{ActionKind::kGather, entry.actions[at].unit}));
    }
  }
}

TEST(Schedule, OffloadsGradientAfterEachReduction) {
  const auto units = equal_units(2, 100000);
  const auto moves_of = [&](const StateFractions& fractions, int accumulate, bool unit_0_stays = false) {
    Placement placement = place(2, Reduce::kEach, accumulate);
    spread_over_tiers(placement, units, 2, fractions);
    if (unit_0_stays) placement.tiers[0].gradient = {.device = placement.tiers[0].gradient.numel()};
    std::vector<Action> actions;
    for (const ScheduleEntry& entry :
         build_schedule(straight_trace(units, accumulate), units, 2, placement, {}).entries)
      actions.insert(actions.end(), entry.actions.begin(), entry.actions.end());
    return actions;
  };
  const Action reduce_0{ActionKind::kReduce, 0}, reduce_1{ActionKind::kReduce, 1};
  const Action offload_0{ActionKind::kOffload, 0}, offload_1{ActionKind::kOffload, 1};
  EXPECT_EQ(moves_of({}, 1), (std::vector{reduce_1, reduce_0}));
  EXPECT_EQ(moves_of({.gradient = {.host = 1}}, 1), (std::vector{reduce_1, offload_1, reduce_0, offload_0}));
  EXPECT_EQ(moves_of({.gradient = {.disk = 0.25}}, 1, /*unit_0_stays=*/true),
            (std::vector{reduce_1, offload_1, reduce_0}));
  EXPECT_EQ(moves_of({.gradient = {.disk = 1}}, 2),
            (std::vector{reduce_1, offload_1, reduce_0, offload_0, reduce_1, offload_1, reduce_0, offload_0}));
}

TEST(Schedule, MoveNamesItsTiers) {
  const auto units = equal_units(1, 100000);
  const auto text = [&](ActionKind kind, const StateFractions& fractions) {
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, units, 2, fractions);
    return describe({kind, 0}, units, placement);
  };
  EXPECT_EQ(text(ActionKind::kPrefetch, {.parameter = {.host = 1}}), "prefetch h.0 from host");
  EXPECT_EQ(text(ActionKind::kPrefetch, {.parameter = {.host = 0.5, .disk = 0.3}}), "prefetch h.0 from host and disk");
  EXPECT_EQ(text(ActionKind::kOffload, {.gradient = {.disk = 1}}), "offload h.0 to disk");
  EXPECT_EQ(text(ActionKind::kReduce, {.gradient = {.disk = 1}}), "reduce h.0");
  EXPECT_EQ(text(ActionKind::kUpdate, {}), "update h.0");
  EXPECT_EQ(text(ActionKind::kUpdate, {.optimizer = {.host = 1}}), "update h.0 on host");
  EXPECT_EQ(text(ActionKind::kUpdate, {.optimizer = {.disk = 1}}), "update h.0 on host (optimizer state on disk)");
  EXPECT_EQ(text(ActionKind::kUpdate, {.gradient = {.host = 1}, .optimizer = {.disk = 1}}),
            "update h.0 on host (optimizer state on disk)");
  EXPECT_EQ(text(ActionKind::kUpdate, {.parameter = {.disk = 1}, .optimizer = {.host = 1}}),
            "update h.0 on host (parameter on disk)");
  EXPECT_EQ(text(ActionKind::kUpdate, {.optimizer = {.host = 0.5}}), "update h.0 on device and host");
  EXPECT_EQ(text(ActionKind::kUpdate, {.optimizer = {.disk = 0.5}}),
            "update h.0 on device and host (optimizer state on device and disk)");
}

}  // namespace
}  // namespace zero
