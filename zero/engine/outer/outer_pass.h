// OuterPass: what an outer step does to the states of one unit (zero/optim/outer_step.h).
//
//   OuterPass pass(updater, state, outer);
//   pass.merge(unit, sum);                // the outer step at once: anchor, momentum and weights
//
//   pass.take_differences(unit, exchange);  // or in two halves: into a exchange ...
//   pass.move_anchors(unit, exchange);      // ... and, after it has arrived, only anchor and momentum
//
// Every pass finishes the updater's queue first. The host works on all tiles. Throws IoError.
#pragma once

#include "zero/engine/outer/outer_exchange.h"
#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/update/updater.h"
#include "zero/optim/outer_step.h"

namespace zero {

class OuterPass {
 public:
  // All must outlive it.
  OuterPass(Updater& updater, const ShardedState& state, const OuterStep& outer)
      : updater_(updater), state_(state), outer_(outer) {}

  // Collective. Takes the unit's part of an outer step: all copies take the anchor that they compute from all copies'
  // weights.
  void merge(int unit, OuterSum& sum);
  // Local. Puts the unit's differences into the exchange.
  void take_differences(int unit, OuterExchange& exchange);
  // Collective. Moves the anchor, and leaves parameters unchanged.
  void move_anchors(int unit, OuterExchange& exchange);

 private:
  // `take_largest` leaves in `elements` the part that is not sent.
  template <typename TakeLargest>
  void subtract(int unit, float* elements, TakeLargest take_largest);

  Updater& updater_;
  const ShardedState& state_;
  const OuterStep& outer_;
};

}  // namespace zero
