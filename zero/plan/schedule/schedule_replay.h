// ScheduleReplay: follows a step along its schedule, and records the step's events.
//
//   ScheduleReplay replay(units, world, placement, budget);
//   const bool foreseen = replay.follow(event, [](const Action& action) { ... });
//   replay.end_step(/*same_everywhere=*/true);      // a new schedule if this step was the first, or had a mismatch
//
// While events match the schedule, it issues the actions of each entry. From the first mismatch (another branch, a
// second forward pass) to the end of the step it issues none; Demand chooses the actions. The first step has no
// schedule, and runs on demand from its start. Values only; Local. Behaves the same on every rank whose model does the
// same.
#pragma once

#include <functional>

#include "zero/plan/schedule/schedule.h"

namespace zero {

class ScheduleReplay {
 public:
  // `units` must outlive the object.
  ScheduleReplay(const std::vector<Unit>& units, int world, Placement placement, GatherBudget budget);

  // Records the event, and issues the actions of its entry one by one. Returns false if no entry foresees the event.
  bool follow(const Event& event, const std::function<void(const Action&)>& issue);
  // Takes a new placement or budget, so end_step() builds a new schedule. Call it between the step event and
  // end_step(), or between steps, and then call renew().
  void placement_changed(Placement placement, GatherBudget budget);
  // Builds the schedule of the recorded step again if it belongs to another placement or budget.
  void renew();
  // Ends the step. `same_everywhere`: every rank recorded the same trace, so a schedule built from it is the same on
  // all.
  void end_step(bool same_everywhere);

  const Trace& trace() const { return trace_; }           // trace of the running step
  const Schedule& schedule() const { return schedule_; }  // the current schedule
  // Returns whether an event of the running step differs from the recorded trace.
  bool mismatched() const { return mismatched_; }
  // Leaves the schedule for a step with fewer micro-batches than the recorded one. That is no mismatch:
  // end_short_step() ends the step, and the schedule stays.
  void leave_schedule() { replaying_ = false; }
  void end_short_step();
  // Begins the running step again, and forgets its events so far.
  void restart();
  // Returns whether the rest of the recorded step, which this step has followed so far, neither uses the unit nor gets
  // a gradient of it. Uses UpdateTiming::free_from; for delayed updates.
  bool done_with(int unit) const;

 private:
  const std::vector<Unit>& units_;
  int world_;
  Placement placement_;
  GatherBudget budget_;
  Schedule schedule_;
  Trace trace_;
  std::size_t cursor_ = 0;
  bool replaying_ = false;
  bool mismatched_ = false;
  bool outdated_ = false;  // the schedule belongs to another placement or budget
};

}  // namespace zero
