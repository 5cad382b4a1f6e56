#include "zero/torch/deferred/tagged_tensor.h"

#include <ATen/core/VariableHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {

at::Tensor tensor_over(const c10::Storage& storage, const std::vector<std::int64_t>& sizes, at::ScalarType type,
                       bool keyed) {
  using Key = c10::DispatchKey;
  c10::DispatchKeySet keys({Key::CPU, Key::AutogradCPU, Key::ADInplaceOrView, Key::AutocastCPU});
  if (storage.device().is_meta()) keys = c10::DispatchKeySet({Key::Meta, Key::AutogradMeta, Key::ADInplaceOrView});
  if (storage.device().is_cuda())
    keys = c10::DispatchKeySet({Key::CUDA, Key::AutogradCUDA, Key::ADInplaceOrView, Key::AutocastCUDA});
  if (keyed) keys = keys.add(kParameterKey);
  auto impl = c10::make_intrusive<at::TensorImpl>(c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(type));
  impl->set_sizes_contiguous(sizes);
  return at::Tensor(std::move(impl));
}

void replace_data(const at::Tensor& tensor, const at::Tensor& data) {
  // set_data() compares the two tensors with an operator, which would gather the parameter.
  const c10::impl::ExcludeDispatchKeyGuard no_gather(kParameterKey);
  if (tensor.is_meta() == data.is_meta() && !tensor.is_meta()) {
    const bool trainable = tensor.requires_grad();
    at::impl::GetVariableHooks()->set_data(tensor, data);
    ZERO_CHECK(tensor.requires_grad() == trainable, "set_data changed requires_grad");
    return;
  }
  // set_data() refuses to leave the meta device. A deferred tensor has no autograd history that this could break.
  tensor.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
  if (auto* history = torch::autograd::impl::get_autograd_meta(tensor)) history->grad_accumulator_.reset();
}

}  // namespace zero
