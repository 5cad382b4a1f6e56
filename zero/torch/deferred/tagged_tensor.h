// tensor_over(), replace_data(): tensors over a storage of ours, and a parameter made one without losing its identity.
//
//   replace_data(parameter, tensor_over(storage, spec, true));   // from now on operators on it reach the fallback
//
// Local.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace zero {

// Contiguous, of these sizes, on the storage's device (CPU or meta); `keyed`: with kParameterKey.
at::Tensor tensor_over(const c10::Storage& storage, const std::vector<std::int64_t>& sizes, at::ScalarType type,
                       bool keyed);

// set_data() without the dispatcher: the tensor keeps its identity, and no operator of ours is in the way.
void replace_data(const at::Tensor& tensor, const at::Tensor& data);

}  // namespace zero
