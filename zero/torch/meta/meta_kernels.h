// MetaKernels: while one lives, operators that have no kernel for the meta device get one on this thread.
//
// Shape rules of many operators exist in Python alone; from C++ "index_select" or "relu" of a meta tensor is an error.
// Here such an operator runs on the CPU, on zeros that take no memory until they are written, and only the shapes and
// types of what it returns are kept. It costs the time and memory of that operator's outputs, one operator at a time.
//
//   const MetaKernels kernels;
//   torch::Tensor loss = model->forward(meta_tokens);
//   loss.backward();
//
// Local to the thread. Works below autograd, so that gradients flow as ever.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace zero {

// A key between the backends and autograd that no tensor carries and nobody has given a meaning.
constexpr c10::DispatchKey kMetaKernelsKey = c10::DispatchKey::CustomRNGKeyId;

class MetaKernels {
 private:
  c10::impl::IncludeDispatchKeyGuard on_{kMetaKernelsKey};
};

}  // namespace zero
