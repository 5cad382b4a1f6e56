#include "zero/torch/pipeline/forward/forward_plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

bool writes_argument(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool returns_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

}  // namespace

bool returns_no_tensor(const c10::OperatorHandle& op) {
  const auto is_tensor = [](const c10::Argument& result) {
    return result.type()->isSubtypeOf(*c10::TensorType::get()) ||
           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  return !op.schema().returns().empty() && std::ranges::none_of(op.schema().returns(), is_tensor);
}

bool has_no_number(const c10::OperatorHandle& op) {
  using Key = c10::DispatchKey;
  if (op.schema().name() == "aten::instance_norm") return false;
  if (returns_view(op.schema())) return true;
  return op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(Key::CPU) &&
         !op.hasKernelForDispatchKey(Key::Autograd) && !op.hasKernelForDispatchKey(Key::AutogradCPU);
}

void for_each_argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                       const std::function<void(const at::Tensor& tensor, bool written)>& visit) {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[stack.size() - arguments.size() + i];
    const bool written = writes_argument(arguments[i]);
    if (value.isTensor()) {
      visit(value.toTensor(), written);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor, written);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        visit(tensor.value_or(at::Tensor()), written);
    }
  }
}

void replace_arguments(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                       const std::function<at::Tensor(const at::Tensor& tensor)>& replace) {
  const std::size_t count = op.schema().arguments().size();
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    c10::IValue& value = stack[i];
    if (value.isTensor()) {
      value = replace(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(replace(tensor));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor.has_value() ? std::optional(replace(*tensor)) : std::nullopt);
      value = std::move(list);
    }
  }
}

std::vector<std::int64_t> argument_sizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::vector<std::int64_t> sizes;
  for_each_argument(op, stack, [&](const at::Tensor& tensor, bool) {
    sizes.push_back(tensor.defined() ? tensor.dim() : -1);
    if (tensor.defined()) sizes.insert(sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
  });
  return sizes;
}

std::string call_text(const c10::OperatorHandle& op, const std::vector<std::int64_t>& sizes) {
  std::string text = op.schema().name();
  for (std::size_t i = 0; i < sizes.size();) {
    const auto dims = static_cast<std::size_t>(std::max<std::int64_t>(sizes[i++], 0));
    fmt::format_to(std::back_inserter(text), " [{}]",
                   fmt::join(sizes.begin() + static_cast<std::ptrdiff_t>(i),
                             sizes.begin() + static_cast<std::ptrdiff_t>(i + dims), ", "));
    i += dims;
  }
  return text;
}

std::string PlannedOperator::text() const {
  return call_text(op, sizes);
}

std::vector<std::string> ForwardPlan::lines() const {
  std::vector<std::string> lines;
  for (const PlannedOperator& planned : operators) lines.push_back(planned.text());
  for (const auto& [first, end] : graph.kept_together)
    lines.push_back(fmt::format("activation checkpoint over operators {} to {}", first, end - 1));
  for (const auto& [first, end] : graph.functions)
    lines.push_back(fmt::format("custom autograd function over operators {} to {}", first, end - 1));
  return lines;
}

bool ForwardPlan::draws() const {
  return std::ranges::any_of(operators, &PlannedOperator::draws);
}

int ForwardPlan::section_of_buffer(int buffer) const {
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    if (std::ranges::find(graph.operators[op].buffers, buffer) != graph.operators[op].buffers.end())
      return sections.of_operator[op];
  ZERO_CHECK(false, "no operator uses buffer {}", buffer);
}

int ForwardPlan::section_of_value(int value) const {
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    if (std::ranges::find(graph.operators[op].outputs, value) != graph.operators[op].outputs.end())
      return sections.of_operator[op];
  ZERO_CHECK(false, "no operator makes value {}", value);
}

}  // namespace zero
