// OperatorPass: which pass of a step an operator on a parameter belongs to, by what autograd is doing on this thread.
//
//   OperatorPass pass;
//   Use why = pass.of_this_operator(engine.in_forward());
//
// A gradient that torch::autograd::grad() takes of the running forward pass with create_graph (a gradient penalty) is
// part of that forward pass: what it computes is differentiated again. Local.
#pragma once

#include "zero/engine/engine.h"

namespace zero {

class OperatorPass {
 public:
  // `in_forward`: the engine is inside a forward pass.
  Use of_this_operator(bool in_forward);

 private:
  Use now(bool in_forward) const;

  Use last_outside_backward_ = Use::kForward;
};

}  // namespace zero
