#include "zero/torch/meta/meta_kernels.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "zero/base/process/pages.h"

namespace zero {
namespace {

// Returns zeros with that shape and these strides on the CPU, on pages that take no memory until they are written. Some
// operators choose the strides of their results by those of their arguments.
at::Tensor cpu_zeros(const at::Tensor& meta) {
  const std::size_t bytes = at::detail::computeStorageNbytes(meta.sizes(), meta.strides(), meta.element_size());
  const auto options = meta.options().device(c10::kCPU).requires_grad(false);
  if (bytes == 0) return at::empty(meta.sizes(), options);
  auto pages = std::make_shared<Allocation>(map_private(bytes));
  TORCH_CHECK(*pages, "no addresses for ", bytes, " bytes");
  return at::from_blob(
      pages->data(), meta.sizes(), meta.strides(), [pages](void*) {}, options);
}

at::Tensor meta_like(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

// Returns `value` with each of its tensors replaced by replace(tensor).
template <class Replace>
c10::IValue with_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(replace(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(replace(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(replace(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_meta()) return c10::Device(c10::kCPU);
  return value;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

void run_on_zeros(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  torch::jit::Stack on_cpu;
  std::vector<at::Tensor> written;  // tensors that the operator changes in place, in order
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (writes(schema.arguments()[i]) && arguments[i].isTensor()) written.push_back(arguments[i].toTensor());
    on_cpu.push_back(with_tensors(
        arguments[i], [](const at::Tensor& tensor) { return tensor.is_meta() ? cpu_zeros(tensor) : tensor; }));
  }
  op.callBoxed(&on_cpu);
  std::size_t next_written = 0;
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    if (writes(schema.returns()[i]) && next_written < written.size()) {
      const at::Tensor& result = written[next_written++];
      const at::Tensor& of_zeros = on_cpu[i].toTensor();  // abs() begins with an empty result, which abs.out resizes
      if (result.sizes() != of_zeros.sizes()) result.resize_(of_zeros.sizes());
      stack->emplace_back(result);
    } else {
      stack->push_back(with_tensors(on_cpu[i], meta_like));
    }
  }
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kMetaKernelsKey);
  const std::size_t begin = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
  try {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMetaKernelsKey), stack);
    return;
  } catch (const c10::NotImplementedError&) {
    const auto is_meta = [](const c10::IValue& value) {
      bool found = false;
      with_tensors(value, [&](const at::Tensor& tensor) {
        found = found || tensor.is_meta();
        return tensor;
      });
      return found;
    };
    if (std::none_of(arguments.begin(), arguments.end(), is_meta)) throw;
  }
  stack->resize(begin);
  run_on_zeros(op, arguments, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

// These operators have one kernel for all backends, which is found before a fallback and then calls a kernel that no
// backend has.
TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, m) {
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&run>());
  m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&run>());
}

}  // namespace zero
