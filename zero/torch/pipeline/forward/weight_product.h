// WeightProduct: a matrix product of a forward pass, for which a pass of weights computes the matrix's gradient.
//
//   if (const auto at = product_arguments(op, stack)) ...      // input x matrix
//   at::Tensor gradient = product.gradient_of_parameter();     // one product of matrices
//
// It calls what autograd calls for the same operator (mm_mat2_grad in libtorch's FunctionsManual.cpp), so the gradient
// has the same bits. Like libtorch, it folds all dimensions of the input except the last into rows. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace zero {

struct ProductArguments {
  std::size_t input = 0, matrix = 0;  // indices of arguments
  bool by_transpose = false;          // the operator multiplies with the transpose of the argument, as aten::linear
};

// Returns the arguments of aten::mm, aten::matmul, aten::linear, or of aten::addmm without a factor. Returns nullopt
// for other operators. Returns nullopt also for a matmul or linear for which libtorch may not compute one product of
// matrices. Then the input has one dimension, has no elements or is not contiguous, or the second argument is no
// matrix.
std::optional<ProductArguments> product_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

struct WeightProduct {
  int param = -1;                            // number of the matrix among its owner's parameters
  bool transposed = false;                   // the matrix is the parameter's transpose
  at::Tensor input;                          // [..., k], without history
  std::vector<std::int64_t> sizes, strides;  // of the matrix, [k, n]
  std::int64_t version = 0;                  // of the input in the forward pass
  int number = -1;                           // of the product among the operators of the forward pass
  at::Tensor gradient;                       // of the result, [..., n]; undefined: the loss does not depend on it

  // False after a write to the input in place. gradient_of_parameter() would then use the new values.
  bool has_its_input() const { return input._version() == version; }
  at::Tensor gradient_of_parameter() const;
};

}  // namespace zero
