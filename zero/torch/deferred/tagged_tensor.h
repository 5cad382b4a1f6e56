// tensor_over(), replace_data(): tensors over a storage of zero.cpp, and a parameter that gets such data.
//
//   replace_data(parameter, tensor_over(storage, sizes, type, true));   // now its operators reach the fallback
//
// The parameter keeps its identity. Local.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace zero {

// Returns a contiguous tensor with these sizes on the storage's device (CPU or meta). `keyed`: with kParameterKey.
at::Tensor tensor_over(const c10::Storage& storage, const std::vector<std::int64_t>& sizes, at::ScalarType type,
                       bool keyed);

// Does what set_data() does, without the dispatcher: the tensor keeps its identity, and no operator of zero.cpp runs.
void replace_data(const at::Tensor& tensor, const at::Tensor& data);

}  // namespace zero
