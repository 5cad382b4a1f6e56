// StepUpdate: carries out the updates of a step at the times of the schedule (UpdateTiming).
//
//   update.apply({.present = ..., .scale = clip / summed, .lr = lr}, /*late=*/false);   // step(), all ranks agreed
//   update.before_use(unit, untraced);          // ... the next step
//   update.before_backward();
//   update.end_last();                          // its step(), before the ranks agree: gradients may change
//   update.end_delayed();                       // and after
//
// An update runs at once, beside the next forward pass, or, if delayed, while the next step computes. finish() ends
// everything that an engine has begun. Collective, unless said otherwise. Throws IoError.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/delayed_update.h"
#include "zero/engine/engine_parts.h"

namespace zero {

class StepUpdate {
 public:
  explicit StepUpdate(EngineParts& parts);

  // Local. Call it before an operator uses the unit. Throws while a delayed update has begun: ConfigError outside
  // training, Error if the unit is already updated.
  void before_use(int unit, bool untraced) const;
  // Local. Call it before gradients change: ends the updates that read them, and begins a delayed update.
  void before_backward();
  // Local.
  void end_last();
  void end_delayed();
  // Applies the gradients of a step. `late`: with the next step, which the schedule must allow.
  using Gradients = DelayedUpdate::Kept;
  void apply(Gradients gradients, bool late);

  // Exchanges all weights with the moving averages that the rule keeps. Call it between steps, after finish(), when
  // nothing is gathered. A second call restores the weights.
  void exchange_averages();
  // Runs `rule` instead of an update of these units, and counts no step. `gathers`: the units are then gathered again.
  // For outer steps (OuterSteps).
  void run_rule(const UpdateRule& rule, const std::vector<int>& units, bool gathers);
  // Ends everything begun, and releases gathered units: states may change.
  void settle();

  // Ends the backward pass, gathers, reductions and updates, and applies a delayed gradient now. Throws ConfigError if
  // this would change parameters that a step has begun to use, or that a scope holds. `ends`: no more computation
  // follows.
  void finish(bool ends = false);
  // Does the same before gradients of the running step are dropped. Throws ConfigError if a delayed update would fall
  // between a forward pass and its backward pass.
  void before_drop();
  // Waits until peers read nothing of this rank, and releases gathered units: states may change.
  void give_up_gathered();

 private:
  void summed(int unit, int pass);
  void apply_waiting(bool ends);
  void carry_out(const Action& action);

  EngineParts& parts_;
  DelayedUpdate delayed_;
};

}  // namespace zero
