// Executor: turns what the model does into actions, and issues them. It decides nothing.
//
// It keeps the trace of the running step. While events come as the schedule says, the actions of each entry are issued;
// from the first event that does not (another branch, a second forward) to the end of the step, they are Demand's.
// The first step has no schedule yet and runs like that from the start.
//
//   executor.access(unit);                          // Collective, like the actions it issues
//   executor.close_step(all_agree);                // a new schedule when this step was the first, or departed
#pragma once

#include "zero/engine/gatherer.h"
#include "zero/engine/pass_clock.h"
#include "zero/engine/reducer.h"
#include "zero/plan/demand.h"
#include "zero/plan/schedule.h"

namespace zero {

class Executor {
 public:
  Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, Reducer& reducer);

  void event(const Event& event);
  // No-op where the last operator used the same unit: a run of operators is one access.
  void access(int unit);
  // No-op inside one.
  void begin_backward();
  // Operators outside training (evaluation, reading): gathers `unit` without a trace.
  void use_untraced(int unit);

  bool in_backward() const { return in_backward_; }
  // A forward pass has begun, and no backward pass after it.
  bool in_forward() const {
    return !in_backward_ && !trace_.events.empty() && trace_.events.back().kind == EventKind::kAccess;
  }
  // Collective. A gradient of `unit` was added to the reducer.
  void gradient_arrived(int unit);
  // Collective. The backward pass is over: what has no gradient counts as zeros. No-op outside one.
  void end_backward();
  // The recorded step, which this one has followed so far, neither uses the unit again nor gets another gradient of it:
  // by UpdateTiming::free_from, of a delayed update.
  bool done_with(int unit) const;
  // Local. The unit of the last operator may have been released.
  void forget_access() { last_accessed_ = -1; }
  // Of this step; the last of `accumulate` reduces when `reduce last` is asked for.
  int finished_backwards() const { return finished_backwards_; }

  const Trace& trace() const { return trace_; }
  const Schedule& schedule() const { return schedule_; }
  bool mismatched() const { return mismatched_; }

  // Local. They are told every event of a step, before what it asks for is done.
  void set_clocks(std::vector<PassClock*> clocks) { clocks_ = std::move(clocks); }
  // Local. Placement or budget have changed: the next schedule is built anew. Between the step event and close_step().
  void placement_changed(GatherBudget budget);
  // Local. `same_everywhere`: every rank recorded the same trace, so that a schedule built from it is the same on all.
  void close_step(bool same_everywhere);

 private:
  void begin_step();
  void note(const Event& event);
  void depart();
  bool leaves_something(const Event& event) const;
  void issue(const std::vector<Action>& actions);
  void issue(const Action& action);
  void issue_on_demand(const Event& event);

  ShardedState& state_;
  GatherBudget budget_;
  Gatherer& gatherer_;
  Reducer& reducer_;
  std::vector<PassClock*> clocks_;
  Schedule schedule_;
  Demand demand_;
  std::vector<bool> announced_;  // by unit: its gradient event was seen in this backward pass
  Trace trace_;
  std::size_t cursor_ = 0;
  int last_accessed_ = -1;  // since then nothing can have released it
  int finished_backwards_ = 0;
  bool replaying_ = false;
  bool mismatched_ = false;
  bool outdated_ = false;         // the schedule is of another placement or budget
  bool said_mismatched_ = false;  // once a run
  bool in_backward_ = false;
  bool untraced_residents_ = false;
};

}  // namespace zero
