// Executor: turns the model's events into actions, and issues them.
//
//   executor.access(unit);                          // Collective, like the actions it issues
//   executor.close_step(all_agree);                // a new schedule if this step was the first, or had a mismatch
//
// It decides nothing. StepReplay names the actions while events follow the schedule, and Demand names them otherwise.
#pragma once

#include "zero/engine/gather/gatherer.h"
#include "zero/engine/options/pass_times.h"
#include "zero/engine/reduce/reducer.h"
#include "zero/plan/schedule/demand.h"
#include "zero/plan/schedule/step_replay.h"

namespace zero {

class Executor {
 public:
  Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, const SecondaryParts& parts, Reducer& reducer);

  void event(const Event& event);
  // Notes an operator that uses `unit`. No-op if the last operator used the same unit: a run of operators is one
  // access.
  void access(int unit);
  // Counts later events of this step to micro-batch `number`. A backward pass then ends where the backward pass of
  // another micro-batch begins, and at no forward use. Without numbers a forward use after a backward pass begins the
  // next micro-batch.
  void begin_micro_batch(int number);
  // Collective. Call it before a forward use.
  void begin_forward();
  // Collective. No-op within the backward pass of this micro-batch.
  void begin_backward();
  // Gathers `unit` without a trace, for operators outside training (evaluation, reading).
  void use_untraced(int unit);
  // Collective. Notes that a gradient of `unit` was added to the reducer.
  void gradient_arrived(int unit);
  // Collective. Ends the backward pass: missing gradients count as zeros. No-op outside a backward pass.
  void end_backward();

  // All Local.
  // Returns whether a forward pass has begun, without a backward pass after it.
  bool in_forward() const;
  bool in_backward() const { return in_backward_; }
  bool in_own_backward() const { return in_backward_ && backward_of_ == micro_batch_; }
  // Returns the backward passes of this step. The last of `accumulate` passes reduces if `reduce last` is set.
  int finished_backwards() const { return finished_backwards_; }
  // Returns whether a backward pass of this step has begun.
  bool has_gradients() const { return in_backward_ || finished_backwards_ > 0; }
  const StepReplay& replay() const { return replay_; }
  // Forgets the last access, because its unit may have been released.
  void forget_access() { last_accessed_ = -1; }
  // Sets the receiver of every event of a step. Null: off.
  void tell(PassTimes* times) { times_ = times; }
  // Call it when placement or budget have changed; see StepReplay.
  void placement_changed(GatherBudget budget);
  // Ends the step. `same_everywhere`: see StepReplay::end_step().
  void close_step(bool same_everywhere);
  // Collective. Call it after the last backward pass of a step with fewer than `accumulate`. It leaves the schedule,
  // and reduces gradients that wait for the last micro-batch.
  void end_short_group();
  // Closes such a step, and keeps the schedule.
  void close_short_step();
  // Begins the step again, because its gradients were dropped. Not within a backward pass.
  void restart_step();

 private:
  void make_room_for_schedule();
  void count_anew();
  void note(const Event& event);
  void warn_of_mismatch();
  bool leaves_something(const Event& event) const;
  void issue(const Action& action);
  void issue_on_demand(const Event& event);
  void set_capacity(GatherBudget budget);

  ShardedState& state_;
  Gatherer& gatherer_;
  const SecondaryParts& parts_;
  Reducer& reducer_;
  PassTimes* times_ = nullptr;
  StepReplay replay_;
  Demand demand_;
  std::vector<bool> announced_;  // by unit: its gradient event was seen in this backward pass
  int last_accessed_ = -1;       // not released since then
  int finished_backwards_ = 0;
  int micro_batch_ = 0;           // micro-batch of later events
  int backward_of_ = 0;           // the micro-batch of the last backward pass
  bool numbered_ = false;         // begin_micro_batch() was called in this step
  bool said_mismatched_ = false;  // warned once a run
  bool in_backward_ = false;
  bool untraced_residents_ = false;
};

}  // namespace zero
