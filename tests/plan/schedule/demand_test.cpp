#include "zero/plan/schedule/demand.h"

#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr int kWorld = 2;
constexpr std::int64_t kUnitBytes = 64 * 4;

std::vector<Unit> equal_units() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 4; ++i) specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {64}});
  return make_units(specs, {});
}

const std::vector<Unit> kUnits = equal_units();
const std::vector<int> kReversed{3, 2, 1, 0};
constexpr GatherBudget kMinBudget{GatherBudget::kMin};

Action release(int unit) {
  return {ActionKind::kRelease, unit};
}
Action gather(int unit) {
  return {ActionKind::kGather, unit};
}
Action reduce(int unit) {
  return {ActionKind::kReduce, unit};
}
Event access(int unit) {
  return {EventKind::kAccess, unit, {}};
}
Event gradient(int unit) {
  return {EventKind::kGradient, unit, {}};
}

// `order`: least recently used first. All of these units may be released, except `pinned`.
std::vector<Action> on_access(int unit, GatherBudget budget, const std::vector<int>& order, int pinned = -1,
                              int stage = 3) {
  Residency gathered(kUnits, kWorld);
  Holdings held{.gathered = gathered};
  for (const int each : order) {
    gathered.add(each);
    if (each != pinned) held.releasable.push_back(each);
  }
  return Demand(kUnits, kWorld, place(stage, Reduce::kAuto, 1), budget).actions(access(unit), held, kReversed);
}

std::vector<Action> on_gradient(int unit, const std::vector<int>& complete, const std::vector<int>& reduced,
                                const Placement& placement = place(2, Reduce::kAuto, 1), int finished_backwards = 0) {
  const Residency gathered(kUnits, kWorld);
  const auto among = [](const std::vector<int>& units) {
    return [units](int unit) { return std::ranges::count(units, unit) > 0; };
  };
  const Holdings held{.gathered = gathered,
                      .releasable = {},
                      .finished_backwards = finished_backwards,
                      .complete = among(complete),
                      .reduced = among(reduced)};
  return Demand(kUnits, kWorld, placement, {}).actions(gradient(unit), held, kReversed);
}

TEST(Demand, GathersWhatIsAccessed) {
  EXPECT_EQ(on_access(0, {}, {}), std::vector<Action>{gather(0)});
  EXPECT_EQ(on_access(0, {}, {1, 2, 3}), std::vector<Action>{gather(0)}) << "all have room";
}

TEST(Demand, ReleasesLeastRecentlyUsedUntilFitting) {
  EXPECT_EQ(on_access(0, {2 * kUnitBytes}, {2, 1}), (std::vector<Action>{release(2), gather(0)}));
  EXPECT_EQ(on_access(0, {2 * kUnitBytes}, {3, 1, 2}), (std::vector<Action>{release(3), release(1), gather(0)}));
  EXPECT_EQ(on_access(1, {2 * kUnitBytes}, {2, 1}), std::vector<Action>{gather(1)}) << "unit 1 is already gathered";
}

TEST(Demand, KeepsUsedUnitsBeyondBudget) {
  EXPECT_EQ(on_access(0, {kUnitBytes}, {2, 1}, /*pinned=*/2), (std::vector<Action>{release(1), gather(0)}));
}

TEST(Demand, HoldsOneUnitUnderMinBudget) {
  EXPECT_EQ(on_access(0, kMinBudget, {0, 1, 2}), (std::vector<Action>{release(1), release(2), gather(0)}));
}

TEST(Demand, GathersNothingWhereParametersAreWhole) {
  EXPECT_TRUE(on_access(0, {}, {}, -1, /*stage=*/2).empty());
}

TEST(Demand, ReducesUnitAfterEarlierOnes) {
  EXPECT_TRUE(on_gradient(1, {1}, {}).empty()) << "3 and 2 come first";
  EXPECT_EQ(on_gradient(3, {1, 3}, {}), std::vector<Action>{reduce(3)});
  EXPECT_EQ(on_gradient(2, {1, 2}, {3}), (std::vector<Action>{reduce(2), reduce(1)}));
}

TEST(Demand, ReducesIncompleteUnitAtItsEvent) {
  EXPECT_EQ(on_gradient(3, {}, {}), std::vector<Action>{reduce(3)}) << "missing gradients are zeros";
}

// With Reduce::kLast only the last backward pass reduces.
TEST(Demand, ReducesLastIfPlacementDemands) {
  const Placement last = place(2, Reduce::kLast, 2);
  EXPECT_TRUE(on_gradient(3, {3}, {}, last, /*finished_backwards=*/0).empty());
  EXPECT_EQ(on_gradient(3, {3}, {}, last, /*finished_backwards=*/1), std::vector<Action>{reduce(3)});
}

// Under the min budget all units are also released at the end of a pass.
TEST(Demand, ReleasesAllAtStepEnd) {
  Residency gathered(kUnits, kWorld);
  for (const int unit : {0, 1}) gathered.add(unit);
  const Holdings held{.gathered = gathered, .releasable = {1, 0}};
  const std::vector<Action> all{release(1), release(0)};
  const Placement placement = place(3, Reduce::kAuto, 1);
  for (const EventKind kind : {EventKind::kBackward, EventKind::kEndBackward, EventKind::kStep}) {
    const Event event{kind, -1, {}};
    EXPECT_EQ(Demand(kUnits, kWorld, placement, kMinBudget).actions(event, held, kReversed), all);
    EXPECT_EQ(Demand(kUnits, kWorld, placement, {}).actions(event, held, kReversed),
              kind == EventKind::kStep ? all : std::vector<Action>{});
  }
}

}  // namespace
}  // namespace zero
