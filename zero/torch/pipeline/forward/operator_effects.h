// Operator effects: the random numbers that an operator draws, shapes that depend on values, and written arguments.
//
//   draws_numbers(op, stack)          // true for dropout in training, false for dropout with a probability of 0
//   written_arguments(op, stack)      // {running_mean, running_var} of a batch norm in training
//
// `stack` ends with the operator's arguments. Local.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace zero {

// Whether the operator draws random numbers.
bool draws_numbers(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// Whether it draws from a generator that the program passes.
bool has_own_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// Whether the count of numbers that it draws depends only on the sizes of its arguments.
bool draws_by_sizes(const c10::OperatorHandle& op);
// Whether the shape of the result depends on values: true for a boolean mask, false for an index of whole numbers.
bool has_dynamic_shape(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Whether the operator is aten::equal of two tensors with the same memory and layout. Then only a NaN would make it
// false.
bool compares_with_itself(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// Replaces both arguments of aten::equal by the result true.
void answer_true(torch::jit::Stack& stack);

// Whether the operator has running statistics as arguments, as batch norms do.
bool has_statistics(const c10::OperatorHandle& op);
// Returns the statistics that the operator updates: none in evaluation mode. Most schemas do not mark these arguments
// as written.
std::vector<at::Tensor> updated_statistics(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// Returns the arguments that the operator writes: those that its schema names, and updated statistics.
std::vector<at::Tensor> written_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace zero
