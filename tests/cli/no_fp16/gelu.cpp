// A library that takes gelu for fp16 away from libtorch when it is loaded before it (LD_PRELOAD): libtorch 2.11 has all
// operators of our models in fp16, and a command must refuse a model where one is missing.
//
// BackendSelect is a key that every call passes on its way to the device's kernel, and at which gelu has none.
#include <string_view>

#include <ATen/ops/gelu.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace {

at::Tensor gelu(const at::Tensor& self, std::string_view approximate) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kHalf, "\"GeluKernelImpl\" not implemented for 'Half'");
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::BackendSelect);
  return at::gelu(self, approximate);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, BackendSelect, library) {
  library.impl("gelu", gelu);
}
