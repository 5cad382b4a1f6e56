// A library that removes fp16 gelu from libtorch when it is preloaded (LD_PRELOAD). libtorch 2.11 has all operators of
// our models in fp16, and a command must refuse a model if one is missing.
//
// Every call passes the key BackendSelect before the device's kernel. gelu has no kernel at this key.
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
