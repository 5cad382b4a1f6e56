// MetaKernels: gives operators without a kernel for the meta device such a kernel on this thread while it lives.
//
//   const MetaKernels kernels;
//   torch::Tensor loss = model->forward(meta_tokens);
//   loss.backward();
//
// The shape rules of many operators exist only in Python: in C++ "index_select" or "relu" of a meta tensor is an error.
// MetaKernels runs such an operator on the CPU, on zeros that take no memory until they are written. It keeps only the
// shapes and types of the results. This costs the time of the operator and the memory of its outputs, one operator at a
// time.
//
// Local to the thread. It works below autograd, so gradients are computed as usual.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace zero {

// A key between the backends and autograd that no tensor has and that has no other use.
constexpr c10::DispatchKey kMetaKernelsKey = c10::DispatchKey::CustomRNGKeyId;

class MetaKernels {
 private:
  c10::impl::IncludeDispatchKeyGuard on_{kMetaKernelsKey};
};

}  // namespace zero
