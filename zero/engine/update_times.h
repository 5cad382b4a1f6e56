// UpdateTimes: says when the updates of a step run, by the schedule's UpdateTiming. The executor runs them.
//
//   times.apply({.present = ..., .scale = clip / summed, .rates = rates}, /*late=*/false);  // step(), all ranks agreed
//   times.before_use(unit, untraced);           // ... the next step
//   times.before_backward();
//   times.before_agreement();                   // its step(): gradients may change after it
//   times.after_agreement();
//
// An update ends in step(), overlaps the next forward pass, or is delayed by one step (ZeRO-Offload, ATC'21, section
// 5.2). A delayed update begins with the next backward pass. During that pass a unit is updated after its new gradient
// is summed, if the recorded step does not use the unit again. after_agreement() updates the remaining units in the
// order of the next forward pass. So that backward pass overlaps the transfers of states that are off the device. Step
// t computes with parameters that lack the gradient of step t - 1, and each unit has two gradients in memory for a
// time. finish() ends everything that an engine has begun. Collective, unless said otherwise. Throws IoError.
#pragma once

#include <optional>
#include <vector>

#include "zero/engine/engine_parts.h"

namespace zero {

class UpdateTimes {
 public:
  explicit UpdateTimes(EngineParts& parts);

  // Local. Call it before an operator uses the unit. Throws while a delayed update has begun: ConfigError outside
  // training, Error if the unit is already updated.
  void before_use(int unit, bool untraced) const;
  // Local. Call it before gradients change: ends the updates that read them, and begins a delayed update.
  void before_backward();
  // Local. Call them in step(), before and after the ranks agree on it. They end the updates of the step before.
  void before_agreement();
  void after_agreement();
  // Applies the gradients of a step. `late`: one step later. The schedule must then be of delayed updates.
  void apply(StepGradients gradients, bool late);

  // Ends the backward pass, gathers, reductions and updates, and applies a delayed gradient now. Throws ConfigError if
  // this would change parameters that a step has begun to use, or that a scope holds. `ends`: no more computation
  // follows.
  void finish(bool ends = false);
  // Does the same before gradients of the running step are dropped. Throws ConfigError if a delayed update would fall
  // between a forward pass and its backward pass.
  void before_drop();
  // Ends everything begun, and releases gathered units: states may change.
  void settle();

 private:
  // Returns whether gradients wait for their update, or for the update of the remaining units.
  bool is_late() const { return waiting_.has_value() || open_; }
  // Returns whether some parameters have their late update, and others do not.
  bool has_updated_some() const { return !updated_.empty(); }
  void begin_waiting();
  void summed(int unit, int pass);
  void apply_waiting(bool ends);
  void give_up_gathered();

  EngineParts& parts_;
  std::optional<StepGradients> waiting_;  // gradients that the next step applies
  bool open_ = false;                     // a late update has begun: units are updated when they are free
  std::vector<bool> updated_;             // by unit, while it is open; empty until a unit is free
};

}  // namespace zero
