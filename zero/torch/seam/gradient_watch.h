// GradientWatch: records reads of .grad() and calls of zero_grad() on parameters whose gradients an engine takes.
//
//   auto watch = std::make_shared<GradientWatch>();
//   watch_gradient(parameter, watch);   // from now on the parameter's autograd metadata records uses
//   watch->gradients_wait = true;       // a backward pass has computed gradients of this step
//   take_gradient_reads(parameter)      // whether .grad() was read since the last call, while gradients waited
//   take_zeroed(parameter)              // whether zero_grad() was called on it since the last call
//
// An attached parameter's .grad() is never defined. clip_grad_norm_() and the optimizers of libtorch skip such a
// parameter silently. All of them read the constant .grad(). A read while no gradient waits is not recorded, because
// .grad() is also undefined then in libtorch. zero_grad() of modules and optimizers uses mutable_grad(). autograd also
// uses it, but only within a backward pass.
//
// Local. A parameter that is a view, or not a leaf, is not watched.
#pragma once

#include <atomic>
#include <memory>

#include <ATen/core/Tensor.h>

namespace zero {

// The records for all parameters of one attached model. The parameters' metadata may outlive the engine.
struct GradientWatch {
  std::atomic<bool> gradients_wait{false};
  std::atomic<bool> zeroed{false};  // zero_grad() was called on at least one parameter
};

void watch_gradient(const at::Tensor& parameter, std::shared_ptr<GradientWatch> watch);
bool is_watched(const at::Tensor& parameter);
bool take_gradient_reads(const at::Tensor& parameter);
bool take_zeroed(const at::Tensor& parameter);

// True if .grad() is defined. Does not count as a read.
bool holds_gradient(const at::Tensor& parameter);
// Returns the .grad tensor itself, from which the gradient can be taken. Does not count as zero_grad(). ZERO_CHECK
// fails if the parameter has no autograd metadata.
at::Tensor& gradient_slot(const at::Tensor& parameter);

}  // namespace zero
