#include "zero/torch/pipeline/forward/weight_product.h"

#include <ATen/ops/mm.h>

namespace zero {
namespace {

// If the matrix needs a gradient, libtorch always folds the input into rows. Else it folds only an input that it can
// view as rows (should_fold in LinearAlgebra.cpp). So only such an input has the same product in both cases.
bool is_one_product(const at::Tensor& input, const at::Tensor& matrix) {
  return matrix.dim() == 2 && input.dim() >= 2 && input.numel() > 0 && (input.dim() == 2 || input.is_contiguous());
}

at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.dim() == 2 ? tensor : tensor.reshape({-1, tensor.size(-1)});
}

}  // namespace

std::optional<ProductArguments> product_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const c10::OperatorName& name = op.operator_name();
  if (!name.overload_name.empty()) return std::nullopt;
  if (name.name == "aten::mm") return ProductArguments{.input = 0, .matrix = 1};
  const std::size_t count = op.schema().arguments().size();
  const auto argument = [&](std::size_t at) -> const c10::IValue& { return stack[stack.size() - count + at]; };
  if (name.name == "aten::matmul" || name.name == "aten::linear") {
    if (!is_one_product(argument(0).toTensor(), argument(1).toTensor())) return std::nullopt;
    return ProductArguments{.input = 0, .matrix = 1, .by_transpose = name.name == "aten::linear"};
  }
  constexpr std::size_t kNumArguments = 5;  // self, mat1, mat2, beta, alpha
  if (name.name != "aten::addmm" || count != kNumArguments) return std::nullopt;
  if (!stack.back().toScalar().equal(1)) return std::nullopt;
  return ProductArguments{.input = 1, .matrix = 2};
}

at::Tensor WeightProduct::gradient_of_parameter() const {
  const bool by_columns = strides[0] == 1 && strides[1] == sizes[0];
  const at::Tensor rows = as_rows(input), of_rows = as_rows(gradient);
  const at::Tensor found = by_columns ? at::mm(of_rows.t(), rows).t() : at::mm(rows.t(), of_rows);
  return transposed ? found.t() : found;
}

}  // namespace zero
