// absent_tensor(): a tensor that another rank computes. It has all sizes, and no memory until it is filled.
//
//   at::Tensor x = absent_tensor(/*value=*/9, layout, "aten::addmm");
//   x.view({4, -1}).transpose(0, 1);       // views work, because they read no memory
//   absent_value(x.view({-1}))             // 9: views share the storage
//   fill_absent(x, received);              // now x and all its views have values
//
// Before it is filled, reading its memory throws a c10::Error with the operator's name. Local.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace zero {

// Sizes, strides and type of a tensor.
struct TensorLayout {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  at::ScalarType type = at::kFloat;
  bool requires_grad = false;

  static TensorLayout of(const at::Tensor& tensor);
  bool operator==(const TensorLayout&) const = default;
  std::string text() const;  // "[4, 128] Float"
};

// `value`: the tensor's number in the plan of the forward pass; -1: a parameter. `made_by`: the name of the operator,
// with its section if the model is cut, or of the parameter; for the error text.
at::Tensor absent_tensor(int value, const TensorLayout& layout, const std::string& made_by);

// Returns the number of the value, also after the tensor was filled. Returns nullopt for any other tensor.
std::optional<int> absent_value(const at::Tensor& tensor);
bool is_filled(const at::Tensor& absent);

// Fills `absent`, which must not be a view. If both have equal strides, it shares the memory of `values`; else the
// values are copied.
void fill_absent(const at::Tensor& absent, const at::Tensor& values);

// Returns the tensor without history, as values for fill_absent() or a message. The bytes of a lazily conjugated or
// negated tensor are other numbers, so such a tensor is computed first.
at::Tensor with_own_bytes(const at::Tensor& tensor);

}  // namespace zero
