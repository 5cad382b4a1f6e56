// class_loss(): cross entropy of scores [samples, classes] and classes [samples], in fp32.
//
// It is the mean over the targets that count. `label_smoothing` in [0, 1) is the part of each target that is
// distributed evenly over all classes. Local.
#pragma once

#include <ATen/ops/cross_entropy_loss.h>

#include "app/data/sample/batch.h"

namespace zero {

inline torch::Tensor class_loss(const torch::Tensor& scores, const torch::Tensor& target, double label_smoothing) {
  return at::cross_entropy_loss(scores.to(at::kFloat), target, {}, at::Reduction::Mean, kIgnoredTarget,
                                label_smoothing);
}

}  // namespace zero
