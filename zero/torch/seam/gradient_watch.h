// GradientWatch: the uses of .grad() of parameters whose gradients go to an engine: reads, and zero_grad().
//
//   auto watch = std::make_shared<GradientWatch>();
//   watch_gradient(parameter, watch);   // its autograd metadata takes notes from now on
//   watch->gradients_wait = true;       // a backward pass has made gradients of this step
//   take_gradient_reads(parameter)      // whether .grad() was read since the last call, while gradients waited
//   take_zeroed(parameter)              // whether zero_grad() was called on it since the last call
//
// An attached parameter's .grad() is never defined, and code that finds it undefined goes on without a word:
// clip_grad_norm_() and the optimizers of libtorch pass such a parameter over. All of them read the constant .grad().
// A read while no gradient waits counts for nothing: .grad() is also undefined then in libtorch.
// zero_grad() of modules and optimizers uses mutable_grad(). So does autograd, but within a backward pass.
//
// Local. A parameter that is a view, or no leaf, is not watched.
#pragma once

#include <atomic>
#include <memory>

#include <ATen/core/Tensor.h>

namespace zero {

// Of the parameters of one attached model. Its metadata may outlive the engine.
struct GradientWatch {
  std::atomic<bool> gradients_wait{false};
  std::atomic<bool> zeroed{false};  // zero_grad() was called on one of them
};

void watch_gradient(const at::Tensor& parameter, std::shared_ptr<GradientWatch> watch);
bool is_watched(const at::Tensor& parameter);
bool take_gradient_reads(const at::Tensor& parameter);
bool take_zeroed(const at::Tensor& parameter);

// Whether .grad() is defined; counts as no read.
bool holds_gradient(const at::Tensor& parameter);
// The same tensor, to take the gradient from; counts as no zero_grad(). Undefined metadata: ZERO_CHECK fails.
at::Tensor& gradient_slot(const at::Tensor& parameter);

}  // namespace zero
