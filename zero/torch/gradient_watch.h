// watch_gradient(): notes whether somebody looks for a parameter's gradient in .grad().
//
// An attached parameter's .grad() is never defined, and who finds it undefined goes on without a word:
// clip_grad_norm_() and the optimizers of libtorch pass such a parameter over. All of them read the constant .grad();
// autograd, zero_grad() and zero.cpp use mutable_grad(). So reading it is what can be seen of them.
//
//   watch_gradient(parameter);          // its autograd metadata is one that takes notes, from now on
//   take_gradient_reads(parameter)      // whether .grad() was read since the last call
//
// Local. A parameter that is a view, or no leaf, is not watched.
#pragma once

#include <ATen/core/Tensor.h>

namespace zero {

void watch_gradient(const at::Tensor& parameter);
bool take_gradient_reads(const at::Tensor& parameter);

// A gradient that lies in .grad() all the same; counts as no read.
bool holds_gradient(const at::Tensor& parameter);

}  // namespace zero
