#include "zero/torch/pipeline/forward/weight_product.h"

#include <ATen/ops/mm.h>

namespace zero {

std::optional<ProductArguments> product_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const c10::OperatorName& name = op.operator_name();
  if (!name.overload_name.empty()) return std::nullopt;
  if (name.name == "aten::mm") return ProductArguments{.input = 0, .matrix = 1};
  constexpr std::size_t kNumArguments = 5;  // self, mat1, mat2, beta, alpha
  if (name.name != "aten::addmm" || op.schema().arguments().size() != kNumArguments) return std::nullopt;
  if (!stack.back().toScalar().equal(1)) return std::nullopt;
  return ProductArguments{.input = 1, .matrix = 2};
}

at::Tensor WeightProduct::gradient_of_parameter() const {
  const bool by_columns = strides[0] == 1 && strides[1] == sizes[0];
  const at::Tensor found = by_columns ? at::mm(gradient.t(), input).t() : at::mm(input.t(), gradient);
  return transposed ? found.t() : found;
}

}  // namespace zero
