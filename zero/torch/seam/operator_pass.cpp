#include "zero/torch/seam/operator_pass.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>

namespace zero {
namespace {

// True inside torch::autograd::grad(), which computes gradients of chosen tensors instead of the leaves' gradients.
bool takes_chosen_gradients() {
  const auto* chosen = torch::autograd::get_current_graph_task_exec_info();
  return chosen != nullptr && !chosen->empty();
}

}  // namespace

Use OperatorPass::now(bool in_forward) const {
  const c10::AutogradState& state = c10::AutogradState::get_tls_state();
  if (torch::autograd::get_current_graph_task_id() != -1) {
    // Within a backward pass, gradient mode is on with create_graph. It is also on when an activation checkpoint
    // computes its forward pass again, which is part of the backward pass.
    if (in_forward && state.get_grad_mode() && takes_chosen_gradients()) return Use::kForward;
    return Use::kBackward;
  }
  if (state.get_grad_mode()) return Use::kForward;
  if (state.get_inference_mode()) return Use::kUntraced;
  // A custom autograd function runs its forward without gradients; it belongs to the pass that called it. If it comes
  // from Python, the forward-mode flag shows it. If it comes from C++, it looks like an evaluation, but evaluations run
  // between steps and never within a forward pass.
  if (!state.get_fw_grad_mode()) return last_outside_backward_;
  return in_forward ? Use::kForward : Use::kUntraced;
}

Use OperatorPass::of_this_operator(bool in_forward) {
  const Use use = now(in_forward);
  if (use != Use::kBackward) last_outside_backward_ = use;
  return use;
}

}  // namespace zero
