// GradientHook: hands a parameter's gradient to its owner as soon as autograd has completed it.
//
// It is a post hook of the parameter's AccumulateGrad node. After the node has stored the gradient in .grad, the hook
// takes it and leaves .grad empty. So a whole gradient exists as briefly as possible. Local.
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
