// kept_by_autograd(): the tensors that autograd keeps for an operator's backward pass.
//
//   const KeptByAutograd kept = kept_by_autograd(op, stack);      // aten::mul of two tensors that need gradients
//   kept.arguments, kept.results                                  // {0, 1}, {}
//
// It runs the operator on the meta device, frees everything except the nodes of autograd's graph, and finds the memory
// that still exists. So it needs no list of operators. Local.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace zero {

// A kept tensor that the operator wrote in place is in both lists.
struct KeptByAutograd {
  std::vector<std::size_t> arguments;  // indices, in the order of for_each_argument()
  std::vector<std::size_t> results;    // indices among the tensors of all results
  std::int64_t own_bytes = 0;          // of other tensors, such as a copy of an argument that is then written in place
};

// `stack`: ends with the arguments, which are only read. Their tensors are on the meta device, and those that need a
// gradient in a pass need one here. Without gradient mode nothing is kept. Throws c10::Error if the operator cannot run
// on the meta device.
KeptByAutograd kept_by_autograd(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace zero
