// StepPasses: the forward and backward passes of a step, and the events that their uses and gradients make.
//
//   passes.begin_forward();
//   passes.access(unit);                // an operator uses the unit
//   passes.begin_backward();
//   passes.gradient_arrived(unit);      // a gradient was added to the reducer
//   passes.end();                       // step(): all passes of the step have ended
//
// A backward pass has no end of its own: it ends with the next forward use, the backward pass of another micro-batch,
// or step(). The executor receives the events. Collective like the executor's actions, unless said otherwise.
#pragma once

#include <vector>

#include "zero/engine/executor.h"

namespace zero {

class StepPasses {
 public:
  StepPasses(const ShardedState& state, Gatherer& gatherer, Reducer& reducer, Executor& executor);

  // Notes an operator that uses `unit`. No-op if the last operator used the same unit: a run of operators is one
  // access.
  void access(int unit);
  // The same outside training; see Executor::use_untraced().
  void use_untraced(int unit);
  // Local. Counts later events of this step to micro-batch `number`. A backward pass then ends where the backward pass
  // of another micro-batch begins, and at no forward use. Without numbers a forward use after a backward pass begins
  // the next micro-batch.
  void begin_micro_batch(int number);
  // Call it before a forward use.
  void begin_forward();
  // No-op within the backward pass of this micro-batch.
  void begin_backward();
  // Notes that a gradient of `unit` was added to the reducer.
  void gradient_arrived(int unit);
  // Ends the backward pass: missing gradients count as zeros. No-op outside a backward pass.
  void end_backward();
  // Ends the passes of the step, after end_backward().
  void end();

  // All Local.
  // Returns whether a forward pass has begun, without a backward pass after it.
  bool in_forward() const;
  bool in_own_backward() const { return executor_.in_backward() && backward_of_ == micro_batch_; }
  // Returns whether a backward pass of this step has begun.
  bool has_gradients() const { return executor_.in_backward() || executor_.finished_backwards() > 0; }
  // Forgets the last access, because its unit may have been released.
  void forget_access() { last_accessed_ = -1; }
  // Begin the next step, or this step again; see the executor's functions.
  void close_step(bool same_everywhere);
  void restart_step();

 private:
  void event(const Event& event);
  void count_anew();

  Gatherer& gatherer_;
  Reducer& reducer_;
  Executor& executor_;
  const bool delayed_update_;
  std::vector<bool> announced_;  // by unit: its gradient event was seen in this backward pass
  int last_accessed_ = -1;       // not released since then
  int micro_batch_ = 0;          // micro-batch of later events
  int backward_of_ = 0;          // the micro-batch of the last backward pass
  bool numbered_ = false;        // begin_micro_batch() was called in this step
};

}  // namespace zero
