// GradientHook: hands a parameter's gradient to its owner as soon as autograd has it whole.
//
// It is a post hook of the parameter's AccumulateGrad node: it runs after the node has put the gradient into .grad,
// takes the gradient from there and leaves .grad empty, so that a full gradient lives as briefly as possible. Local.
#pragma once

#include <torch/csrc/autograd/function_hook.h>

#include "zero/torch/seam/parameter_storage.h"

namespace zero {

class GradientHook final : public torch::autograd::FunctionPostHook {
 public:
  GradientHook(ParameterOwner& owner, int param) : owner_(owner), param_(param) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override;

 private:
  ParameterOwner& owner_;
  int param_;
};

}  // namespace zero
