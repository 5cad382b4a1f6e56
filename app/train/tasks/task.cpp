#include "app/train/tasks/task.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>

namespace zero {

torch::Tensor Task::loss(const Batch& batch) {
  return loss(as_tensor(batch.input).to(place_), as_tensor(batch.target).to(place_));
}

Task::Score Task::score(const Batch& batch) {
  return score(as_tensor(batch.input).to(place_), as_tensor(batch.target).to(place_));
}

torch::Tensor as_tensor(const Array& array) {
  return std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        // from_blob() requires a writable pointer, but nothing writes into an input.
        return at::from_blob(const_cast<T*>(values.data()), array.shape, c10::CppTypeToScalarType<T>::value);
      },
      array.values);
}

torch::Tensor class_loss(const torch::Tensor& scores, const torch::Tensor& target, double label_smoothing) {
  return at::cross_entropy_loss(scores.to(at::kFloat), target, {}, at::Reduction::Mean, kIgnoredTarget,
                                label_smoothing);
}

}  // namespace zero
