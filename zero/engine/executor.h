// Executor: turns events into actions, and issues them: the only code that carries out the actions of a schedule.
//
//   executor.event({EventKind::kAccess, unit, pinned});    // from StepPasses
//   executor.begin_updates(gradients, units);              // in step(), after ranks agreed: from UpdateTimes
//   executor.update_all();
//   executor.close_step(all_agree);                        // a new schedule if there was none, or this step differed
//
// The schedule determines which units are gathered, released, reduced and updated. ScheduleReplay takes the actions
// from it while events follow the schedule; otherwise Demand computes them from the gathered units. UpdateTimes says
// when updates run. Collective like its actions, unless said otherwise.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "zero/engine/gather/gatherer.h"
#include "zero/engine/options/pass_times.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/reduce/reducer.h"
#include "zero/engine/update/updater.h"
#include "zero/plan/schedule/demand.h"
#include "zero/plan/schedule/schedule_replay.h"

namespace zero {

// The gradients of a step, as its updates read them; see Updater::begin_step().
struct StepGradients {
  std::vector<bool> present;
  double scale = 1;
  StepRates rates;
};

class Executor {
 public:
  Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, SecondaryParts& parts, Reducer& reducer,
           Updater& updater);

  // Records an event of the step, and issues its actions.
  void event(const Event& event);
  // Gathers `unit` without a trace, for operators outside training (evaluation, reading).
  void use_untraced(int unit);
  // Call it before close_step() if the step had fewer than `accumulate` backward passes. Reduces the gradients that
  // wait for the last micro-batch. The rest of the step is executed on demand, and later steps follow the schedule.
  void end_short_group();

  // Begins the updates of a step. `order`: the units, in the order in which they will be updated.
  void begin_updates(const StepGradients& gradients, std::span<const int> order);
  // Issues all actions of step().
  void update_all();
  // Issues the update of one unit before step(). The update may end later.
  void update(int unit);
  // Issues the remaining updates of step(), after update(), and the gathers after them.
  void update_rest();
  // Issues the actions of step() for these units, with `run` for their updates. No gradients are gathered;
  // parameters only if `gathers`.
  void update_with(const std::vector<int>& units, bool gathers, const std::function<void(int unit)>& run);
  // Runs `rule` instead of an update of these units, and counts no step. `gathers`: the units are then gathered again.
  void run_rule(const UpdateRule& rule, const std::vector<int>& units, bool gathers);

  // All Local.
  bool in_backward() const { return in_backward_; }
  // Returns the backward passes of this step. The last of `accumulate` passes reduces if `reduce last` is set.
  int finished_backwards() const { return finished_backwards_; }
  const ScheduleReplay& replay() const { return replay_; }
  const Schedule& schedule() const { return replay_.schedule(); }
  // Sets the receiver of every event of a step. Null: off.
  void set_pass_times(PassTimes* times) { times_ = times; }
  // Call it when placement or budget have changed, and between steps also renew_schedule(); see ScheduleReplay.
  void placement_changed(GatherBudget budget);
  void renew_schedule() { replay_.renew(); }
  // Ends the step. `same_everywhere`: see ScheduleReplay::end_step().
  void close_step(bool same_everywhere);
  // Begins the step again, because its gradients were dropped. Not within a backward pass.
  void restart_step();

 private:
  void make_room_for_schedule();
  void warn_of_mismatch();
  bool leaves_something(const Event& event) const;
  void issue(const Action& action, bool updates_end_at_once = false);
  void issue_on_demand(const Event& event);
  void set_capacity(GatherBudget budget);

  ShardedState& state_;
  Gatherer& gatherer_;
  SecondaryParts& parts_;
  Reducer& reducer_;
  Updater& updater_;
  PassTimes* times_ = nullptr;
  ScheduleReplay replay_;
  Demand demand_;
  int finished_backwards_ = 0;
  bool in_backward_ = false;
  bool short_group_ = false;      // end_short_group() was called, and no backward pass has begun since
  bool said_mismatched_ = false;  // warned once a run
  bool untraced_residents_ = false;
};

}  // namespace zero
