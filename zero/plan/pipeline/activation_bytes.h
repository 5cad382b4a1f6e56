// activation_bytes(), postponed_products(): the bytes that each section's rank holds for a micro-batch between passes,
// and the gradients that passes of weights make.
//
//   activation_bytes(graph, sections, plan.rank_of_section, splits_backward(order))[0].kept     // of section 0
//
// Counted are the bytes that libtorch's allocator holds at the end of a pass, and at most within a backward pass:
//   - tensors that autograd keeps for the backward pass (`saved`, `saved_constants`, `own_bytes` of GraphOperator).
//     Tensors that share memory count once. An activation checkpoint keeps its inputs; within its second run it keeps
//     the tensors of its operators.
//   - values that cross: in the section that makes a value until its gradient arrives, in the others until they send
//     the gradient. Sections of one rank share a value's memory, which counts for the first of them.
//   - gradients that wait: for the answer of the rank to which they were sent, for an earlier section of this rank, or
//     for the pass of weights (with the inputs of postponed products).
//
// Not counted:
//   - the working memory of an operator, and gradients that exist only within a backward pass
//   - tensors that are older than the pass, such as samples and buffers
//   - gathered parameters, gradients and states of the engine
//   - states of the random generator
//
// A together() counts as if it kept its inputs and results. Local, values only.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/pipeline/pipeline_time.h"
#include "zero/plan/pipeline/sections.h"

namespace zero {

// `split`: the order has passes of weights.
std::vector<HeldActivations> activation_bytes(const ForwardGraph& graph, const Sections& sections,
                                              const std::vector<int>& rank_of_section, bool split);

// Returns by operator whether a pass of weights makes the gradient of its matrix, in an order that has such passes. The
// operator must be a product. The matrix must be a parameter of its section that no other operator of the section uses.
std::vector<bool> postponed_products(const ForwardGraph& graph, const Sections& sections);

}  // namespace zero
