// kept_by_autograd(): the tensors that autograd keeps for an operator's backward pass.
//
//   const KeptByAutograd kept = kept_by_autograd(op, stack);      // aten::mul of two tensors that need gradients
//   kept.arguments, kept.results                                  // {0, 1}, {}
//
// It runs the operator on the meta device, frees all but the nodes of autograd's graph, and looks which memory is still
// there. So it needs no list of operators. Local.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace zero {

// Numbers among the tensors of all arguments, as for_each_argument() visits them, and among those of all results. If
// the operator writes an argument in place, it is an argument and a result.
struct KeptByAutograd {
  std::vector<std::size_t> arguments;
  std::vector<std::size_t> results;
  std::int64_t own_bytes = 0;  // of other tensors, such as a copy of an argument that is then written in place
};

// `stack`: ends with the arguments, which are only read. Their tensors are on the meta device, and need a gradient as
// in a pass. Without gradient mode nothing is kept. Throws c10::Error if the operator cannot run there.
KeptByAutograd kept_by_autograd(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace zero
