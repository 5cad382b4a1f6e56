// StepReplay: follows a step along its schedule. It records the events of the running step. While events come as the
// schedule says, it issues the actions of each entry. From the first mismatch (another branch, a second forward pass)
// to the end of the step it issues none: Demand names the actions then. The first step has no schedule, and runs on
// demand from its start.
//
//   StepReplay replay(units, world, placement, budget);
//   const bool foreseen = replay.follow(event, [](const Action& action) { ... });
//   replay.end_step(/*same_everywhere=*/true);      // a new schedule if this step was the first, or had a mismatch
//
// Values only; Local. The same on every rank whose model does the same.
#pragma once

#include <functional>

#include "zero/plan/schedule.h"

namespace zero {

class StepReplay {
 public:
  // `units` outlive it.
  StepReplay(const std::vector<Unit>& units, int world, Placement placement, GatherBudget budget);

  // Records the event, and issues the actions of its entry one by one. False: no entry foresees it.
  bool follow(const Event& event, const std::function<void(const Action&)>& issue);
  // Placement or budget have changed: the next schedule is built anew. Between the step event and end_step().
  void placement_changed(Placement placement, GatherBudget budget);
  // `same_everywhere`: every rank recorded the same trace, so that a schedule built from it is the same on all.
  void end_step(bool same_everywhere);

  const Trace& trace() const { return trace_; }           // of the running step
  const Schedule& schedule() const { return schedule_; }  // the one in force
  // An event of the running step differs from the recorded trace.
  bool mismatched() const { return mismatched_; }
  // The running step has fewer micro-batches than the recorded one. It leaves the schedule, which is no mismatch;
  // end_short_step() ends it, and the schedule stays.
  void leave_schedule() { replaying_ = false; }
  void end_short_step();
  // The running step begins anew: its events so far are forgotten.
  void restart();
  // The rest of the recorded step, which this one has followed so far, neither uses the unit nor gets a gradient of it.
  // By UpdateTiming::free_from, for a delayed update.
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
  bool outdated_ = false;  // the schedule is of another placement or budget
};

}  // namespace zero
