#include "zero/plan/schedule/schedule_replay.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::vector<Unit> two_units() {
  return make_units({{.name = "h.0.w", .shape = {64}}, {.name = "h.1.w", .shape = {64}}}, {});
}

const std::vector<Unit> kTwoUnits = two_units();

Event access_to(int unit) {
  return {EventKind::kAccess, unit, {}};
}

// Forward over both units, backward, gradients, and the step.
const std::vector<Event> kWholeStep{access_to(0),
                                    access_to(1),
                                    {EventKind::kBackward, -1, {}},
                                    access_to(1),
                                    {EventKind::kGradient, 1, {}},
                                    access_to(0),
                                    {EventKind::kGradient, 0, {}},
                                    {EventKind::kEndBackward, -1, {}},
                                    {EventKind::kStep, -1, {}}};

struct Followed {
  std::vector<Action> actions;
  int num_foreseen = 0;
};

Followed follow_all(ScheduleReplay& replay, const std::vector<Event>& events) {
  Followed followed;
  for (const Event& event : events) {
    followed.num_foreseen +=
        replay.follow(event, [&](const Action& action) { followed.actions.push_back(action); }) ? 1 : 0;
  }
  return followed;
}

ScheduleReplay at_stage(int stage) {
  return {kTwoUnits, 2, place(stage, Reduce::kAuto, 1), {}};
}

// The first step has no schedule, so no event is foreseen.
TEST(ScheduleReplay, FirstStepHasNoMismatch) {
  ScheduleReplay replay = at_stage(3);
  const Followed followed = follow_all(replay, kWholeStep);
  EXPECT_EQ(followed.num_foreseen, 0);
  EXPECT_TRUE(followed.actions.empty());
  EXPECT_FALSE(replay.mismatched());
  EXPECT_EQ(replay.trace().events, kWholeStep);
}

// The second step gets every action of the schedule.
TEST(ScheduleReplay, SecondStepGetsEveryAction) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  EXPECT_TRUE(replay.trace().events.empty());
  std::vector<Action> scheduled;
  for (const ScheduleEntry& entry : replay.schedule().entries)
    scheduled.insert(scheduled.end(), entry.actions.begin(), entry.actions.end());
  ASSERT_FALSE(scheduled.empty());
  const Followed followed = follow_all(replay, kWholeStep);
  EXPECT_EQ(followed.num_foreseen, static_cast<int>(kWholeStep.size()));
  EXPECT_EQ(followed.actions, scheduled);
  EXPECT_FALSE(replay.mismatched());
}

TEST(ScheduleReplay, DroppedPassesLeaveTheSchedule) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  follow_all(replay, {access_to(1), access_to(0), {EventKind::kBackward, -1, {}}});
  EXPECT_TRUE(replay.mismatched());
  replay.restart();
  EXPECT_TRUE(replay.trace().events.empty());
  EXPECT_EQ(follow_all(replay, kWholeStep).num_foreseen, static_cast<int>(kWholeStep.size()));
  EXPECT_FALSE(replay.mismatched());
}

TEST(ScheduleReplay, ShortStepLeavesTheSchedule) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  follow_all(replay, {access_to(0), access_to(1)});
  replay.leave_schedule();
  EXPECT_EQ(follow_all(replay, {{EventKind::kStep, -1, {}}}).num_foreseen, 0);
  EXPECT_FALSE(replay.mismatched());
  replay.placement_changed(place(2, Reduce::kAuto, 1), {});
  replay.end_short_step();
  EXPECT_EQ(replay.schedule().placement, place(2, Reduce::kAuto, 1));
  EXPECT_EQ(follow_all(replay, kWholeStep).num_foreseen, static_cast<int>(kWholeStep.size()));
}

TEST(ScheduleReplay, RenewedScheduleHasNewPlacement) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  replay.placement_changed(place(2, Reduce::kAuto, 1), {});
  EXPECT_EQ(replay.schedule().placement, place(3, Reduce::kAuto, 1));
  replay.renew();
  EXPECT_EQ(replay.schedule().placement, place(2, Reduce::kAuto, 1));
  EXPECT_EQ(follow_all(replay, kWholeStep).num_foreseen, static_cast<int>(kWholeStep.size()));
  EXPECT_FALSE(replay.mismatched());
}

TEST(ScheduleReplay, MismatchEndsForecastForStep) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  std::vector<Event> other = kWholeStep;
  std::swap(other[0], other[1]);
  EXPECT_EQ(follow_all(replay, other).num_foreseen, 0);
  EXPECT_TRUE(replay.mismatched());
  replay.end_step(true);
  EXPECT_FALSE(replay.mismatched()) << "the next step has its own schedule";
  EXPECT_EQ(follow_all(replay, other).num_foreseen, static_cast<int>(other.size()));
}

TEST(ScheduleReplay, ExtraEventIsMismatch) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  follow_all(replay, kWholeStep);
  EXPECT_FALSE(replay.mismatched());
  EXPECT_EQ(follow_all(replay, {access_to(0)}).num_foreseen, 0);
  EXPECT_TRUE(replay.mismatched());
}

TEST(ScheduleReplay, ShortStepBecomesNextSchedule) {
  ScheduleReplay replay = at_stage(3);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  const std::vector<Event> shorter{access_to(0), access_to(1)};
  EXPECT_EQ(follow_all(replay, shorter).num_foreseen, 2);
  replay.end_step(true);
  EXPECT_EQ(replay.schedule().entries.size(), 2U);
}

TEST(ScheduleReplay, NextScheduleNeedsAllRanksTraces) {
  ScheduleReplay replay = at_stage(2);
  follow_all(replay, kWholeStep);
  replay.end_step(false);
  EXPECT_TRUE(replay.schedule().entries.empty());
  EXPECT_EQ(replay.schedule().reduce_order, (std::vector<int>{1, 0})) << "reversed, whatever the data";
}

TEST(ScheduleReplay, ChangedPlacementEntersNextScheduleOnly) {
  ScheduleReplay replay = at_stage(2);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  follow_all(replay, kWholeStep);
  replay.placement_changed(place(2, Reduce::kAuto, 1), {.capacity_bytes = 4096});
  EXPECT_NE(replay.schedule().budget.capacity_bytes, 4096);
  replay.end_step(true);
  EXPECT_EQ(replay.schedule().budget.capacity_bytes, 4096);
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  EXPECT_EQ(replay.schedule().budget.capacity_bytes, 4096);
}

TEST(ScheduleReplay, IssuesActionBeforeServingEntry) {
  ScheduleReplay replay(kTwoUnits, 2, place(2, Reduce::kAuto, 1, /*delayed_update=*/true), {});
  EXPECT_FALSE(replay.done_with(1)) << "there is no schedule yet";
  follow_all(replay, kWholeStep);
  replay.end_step(true);
  ASSERT_TRUE(replay.schedule().updates.delayed);
  const std::size_t free_from = replay.schedule().updates.free_from[1];
  ASSERT_LT(free_from, kWholeStep.size());
  for (std::size_t i = 0; i < kWholeStep.size(); ++i) {
    EXPECT_EQ(replay.done_with(1), i >= free_from) << "before event " << i;
    replay.follow(kWholeStep[i], [&](const Action&) { EXPECT_EQ(replay.done_with(1), i >= free_from); });
  }
}

}  // namespace
}  // namespace zero
