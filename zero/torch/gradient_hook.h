// GradientHook: hands a parameter's gradient to the engine as soon as autograd has it whole.
//
// A post hook of the parameter's AccumulateGrad node: it runs after the node has put the gradient into .grad, takes it from there and
// leaves .grad empty, so that a full gradient lives no longer than it must. Local.
#pragma once

#include <torch/csrc/autograd/function_hook.h>

namespace zero {

class AttachedModule;

class GradientHook final : public torch::autograd::FunctionPostHook {
 public:
  GradientHook(AttachedModule& module, int param) : module_(module), param_(param) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs, const torch::autograd::variable_list& inputs) override;

 private:
  AttachedModule& module_;
  int param_;
};

}  // namespace zero
