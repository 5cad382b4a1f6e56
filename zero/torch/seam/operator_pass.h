// OperatorPass: decides which pass of a step an operator belongs to, from autograd's state on this thread.
//
//   OperatorPass pass;
//   Use why = pass.of_this_operator(engine.in_forward());
//
// torch::autograd::grad() with create_graph may take a gradient within a forward pass (a gradient penalty). Its
// operators are part of that forward pass, because their results are differentiated again. Local.
#pragma once

#include "zero/engine/rank_engine.h"

namespace zero {

class OperatorPass {
 public:
  // `in_forward`: true if the engine is inside a forward pass.
  Use of_this_operator(bool in_forward);

 private:
  Use now(bool in_forward) const;

  Use last_outside_backward_ = Use::kForward;
};

}  // namespace zero
