// OperatorTimer: the seconds of operators, measured on tensors of the planned layouts.
//
//   OperatorTimer timer;
//   ForwardPlan plan = learn_forward(parameters, loss, &timer);
//   timer.fill_gaps(plan.graph);
//   plan.graph.operators[3].seconds         // {.forward = 2e-4, .inputs = 2e-4, .weights = 2e-4}
//
// Each distinct operator with its layouts runs once to warm up and then up to three times; the shortest time counts.
// Floating-point tensors get random values. Whole numbers are 0, so every index is in range. The default random
// generator keeps its state. An operator that fails on such values stays unmeasured. After 5 s of measurements new
// operators stay unmeasured. fill_gaps() estimates them by their work. Local.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "zero/plan/pipeline/sections.h"

namespace zero {

class OperatorTimer {
 public:
  // `stack`: ends with the arguments, whose tensors are on the meta device and require gradients as in a pass.
  // `of_params`: for each tensor argument, whether it is a parameter.
  OperatorSeconds time(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                       const std::vector<bool>& of_params);

  // Estimates each operator without a time: its work, times the measured operators' mean seconds for a unit of work. A
  // third of that is forward, a third inputs and a third weights.
  static void fill_gaps(ForwardGraph& graph);

  int num_measured() const { return static_cast<int>(measured_.size()); }

 private:
  std::map<std::string, OperatorSeconds> measured_;  // by operator and layouts
  double spent_ = 0;                                 // seconds of all measurements
};

}  // namespace zero
