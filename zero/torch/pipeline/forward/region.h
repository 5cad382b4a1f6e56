// Region: runs the function of a together() call as one operator of a pipeline's plan.
//
//   Region region;
//   return region.take(fn, inputs, like, [&](op, stack) { run(op, {}, stack); });  // in OperatorTaker::run_together()
//   region.run(stack);                                                             // in run(), if region.is_open()
//
// The operator has a schema and no kernel. Local.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "zero/torch/seam/operator_taker.h"

namespace zero {

class Region {
 public:
  using Tensors = std::vector<at::Tensor>;

  // Calls `take` with the operator, and with its arguments on the stack. Returns the results from the stack. A
  // together() call inside `function` runs as a part of it.
  Tensors take(const OperatorTaker::Function& function, const Tensors& inputs, const Tensors& like,
               const std::function<void(const c10::OperatorHandle& op, torch::jit::Stack& stack)>& take);

  bool is_open() const { return function_ != nullptr; }
  // Replaces the arguments on the stack by the function's results. Throws ConfigError if their number, sizes, types or
  // need of a gradient differ from those of `like`.
  void run(torch::jit::Stack& stack) const;
  // As run(), if only the ranks of one section run it. Throws ConfigError if the function drew random numbers.
  void run_alone(torch::jit::Stack& stack) const;
  // Replaces the arguments by tensors of the meta device with the layouts of `like`. Does not call the function.
  static void run_on_meta(torch::jit::Stack& stack);

 private:
  const OperatorTaker::Function* function_ = nullptr;
};

}  // namespace zero
