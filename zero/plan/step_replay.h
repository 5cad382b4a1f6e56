// StepReplay: a step followed along its schedule. It records the events of the running step. While they come as the
// schedule says, it hands out the actions of each entry; from the first that does not (another branch, a second forward)
// to the end of the step, none: they are Demand's then. The first step has no schedule yet, and runs like that from the
// start.
//
//   StepReplay replay(units, world, placement, budget);
//   const bool foreseen = replay.follow(event, [](const Action& action) { ... });
//   replay.end_step(/*same_everywhere=*/true);      // a new schedule where this step was the first, or departed
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
  // The running step has departed from the recorded one.
  bool mismatched() const { return mismatched_; }
  // The recorded step, which this one has followed so far, neither uses the unit again nor gets another gradient of it:
  // by UpdateTiming::free_from, of a delayed update.
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
