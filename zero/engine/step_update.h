// StepUpdate: carries out the updates of a step when the schedule says (UpdateTiming): at once, beside the next forward
// pass, or, where they are delayed, while the next step computes.
//
//   update.apply({.present = ..., .scale = clip / summed, .lr = lr}, /*late=*/false);   // step(), all ranks agreed
//   update.before_use(unit, untraced);          // ... the next step
//   update.before_backward();
//   update.end_last();                          // its step(), before the ranks agree: gradients may change
//   update.end_delayed();                       // and after
//
// finish() ends everything that an engine has begun. Collective, where nothing else is said. Throws IoError.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/delayed_update.h"
#include "zero/engine/engine_parts.h"

namespace zero {

class StepUpdate {
 public:
  explicit StepUpdate(EngineParts& parts);

  // Local. An operator is about to use the unit. Throws while a delayed update has begun: ConfigError outside training,
  // Error where the unit is updated already.
  void before_use(int unit, bool untraced) const;
  // Local. Gradients will change: what reads them ends; what was delayed begins.
  void before_backward();
  // Local.
  void end_last();
  void end_delayed();
  // `late`: with the next step, which the schedule must allow.
  using Gradients = DelayedUpdate::Kept;
  void apply(Gradients gradients, bool late);

  // Exchanges all weights with the moving averages that the rule keeps; between steps, when finish() was called and
  // nothing is gathered. Twice, and all is as before.
  void exchange_averages();
  // Runs `rule` in place of an update of these units; no step is counted. They are then gathered anew if `gathers`. For outer
  // steps (OuterSteps).
  void run_rule(const UpdateRule& rule, const std::vector<int>& units, bool gathers);
  // What was begun ends, and nothing is gathered: states may change.
  void settle();

  // Ends the backward pass, gathers, reductions and updates, and applies what was delayed, without a step that it could
  // wait for. Throws ConfigError where that would change parameters which a step has begun to use, or that a scope
  // holds; `ends`: nothing is computed with them any more.
  void finish(bool ends = false);
  // The same, before gradients of the running step are dropped. Throws ConfigError if a delayed update would come between a
  // forward pass and its backward pass.
  void before_drop();
  // Peers read nothing here any more, and nothing is gathered: states may change.
  void give_up_gathered();

 private:
  void summed(int unit, int pass);
  void apply_waiting(bool ends);
  void carry_out(const Action& action);

  EngineParts& parts_;
  DelayedUpdate delayed_;
};

}  // namespace zero
