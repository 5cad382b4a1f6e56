// Executor: turns what the model does into actions, and issues them. It decides nothing: StepReplay names the actions
// while events come as the schedule says, and Demand names them where no schedule does.
//
//   executor.access(unit);                          // Collective, like the actions it issues
//   executor.close_step(all_agree);                // a new schedule if this step was the first, or had a mismatch
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
  // No-op where the last operator used the same unit: a run of operators is one access.
  void access(int unit);
  // Events from here on, in this step, are of micro-batch `number`. Then a backward pass ends where that of another
  // micro-batch begins, and at no forward use. Without numbers a forward use after a backward pass begins the next
  // micro-batch.
  void begin_micro_batch(int number);
  // Collective. Before a forward use.
  void begin_forward();
  // Collective. No-op within the backward pass of this micro-batch.
  void begin_backward();
  // Operators outside training (evaluation, reading): gathers `unit` without a trace.
  void use_untraced(int unit);
  // Collective. A gradient of `unit` was added to the reducer.
  void gradient_arrived(int unit);
  // Collective. The backward pass is over: what has no gradient counts as zeros. No-op outside one.
  void end_backward();

  // Local, all of these.
  // A forward pass has begun, and no backward pass after it.
  bool in_forward() const;
  bool in_backward() const { return in_backward_; }
  bool in_own_backward() const { return in_backward_ && backward_of_ == micro_batch_; }
  // Of this step; the last of `accumulate` reduces when `reduce last` is asked for.
  int finished_backwards() const { return finished_backwards_; }
  // A backward pass of this step has begun.
  bool has_gradients() const { return in_backward_ || finished_backwards_ > 0; }
  const StepReplay& replay() const { return replay_; }
  // The unit of the last operator may have been released.
  void forget_access() { last_accessed_ = -1; }
  // It is told every event of a step. Null: nobody is.
  void tell(PassTimes* times) { times_ = times; }
  // Placement or budget have changed; see StepReplay.
  void placement_changed(GatherBudget budget);
  // `same_everywhere`: see StepReplay::end_step().
  void close_step(bool same_everywhere);
  // Collective. After the last backward pass of a step that has fewer than `accumulate`: the schedule is left, and
  // gradients that wait for the last micro-batch are reduced.
  void end_short_group();
  // Closes such a step. The schedule stays.
  void close_short_step();
  // The step begins anew: its gradients were dropped. Not within a backward pass.
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
  int last_accessed_ = -1;       // since then nothing can have released it
  int finished_backwards_ = 0;
  int micro_batch_ = 0;           // of the events from here on
  int backward_of_ = 0;           // the micro-batch of the last backward pass
  bool numbered_ = false;         // begin_micro_batch() was called in this step
  bool said_mismatched_ = false;  // once a run
  bool in_backward_ = false;
  bool untraced_residents_ = false;
};

}  // namespace zero
