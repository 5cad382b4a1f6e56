// GradientWatch: records reads of .grad() and calls of zero_grad() on parameters whose gradients an engine takes.
//
//   auto watch = std::make_shared<GradientWatch>();
//   watch_gradient(parameter, watch);   // from now on the parameter's autograd metadata records uses
//   gradient_has_come(parameter);       // the engine has taken a gradient of this parameter
//   take_gradient_reads(parameter)      // whether .grad() was read since the last call, and that was a mistake
//   take_zeroed(parameter)              // whether zero_grad() was called on it since the last call
//
// An attached parameter's .grad() is never defined. clip_grad_norm_() and the optimizers of libtorch skip such a
// parameter silently. A read is recorded if libtorch would have found the gradient. The parameter then has a gradient
// in the running step, and the read is outside of a backward pass (docs/decisions/0083). zero_grad() of modules and
// optimizers uses mutable_grad(). autograd also uses it, but only within a backward pass.
//
// Local. A parameter that is a view, or not a leaf, is not watched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace zero {

// The records for all parameters of one attached model. The parameters' metadata may outlive the engine.
struct GradientWatch {
  std::atomic<std::int64_t> step{0};  // number of the running step
  std::atomic<int> pauses{0};         // while positive, no read is recorded
  std::atomic<bool> zeroed{false};    // zero_grad() was called on at least one parameter
};

void watch_gradient(const at::Tensor& parameter, std::shared_ptr<GradientWatch> watch);
bool is_watched(const at::Tensor& parameter);
bool take_gradient_reads(const at::Tensor& parameter);
bool take_zeroed(const at::Tensor& parameter);

// The engine has taken a gradient of the parameter in the running step, or dropped the gradients that it had.
void gradient_has_come(const at::Tensor& parameter);
void gradient_is_gone(const at::Tensor& parameter);
// The next read of .grad() moves the gradient with the parameter, so it does not count.
void expect_move(const at::Tensor& parameter);

// For programs in another language, whose functions do not call mutable_grad(). All three ignore tensors that are not
// watched. mark_zeroed() has the effect of zero_grad() on this parameter. Call it on every rank.
void mark_zeroed(const at::Tensor& parameter);
void forget_gradient_reads(const std::vector<at::Tensor>& parameters);
// While it lives, no read of .grad() counts on any parameter of the models to which `parameters` belong. A compiler
// looks at tensors without using them.
class [[nodiscard]] GradientReadsPause {
 public:
  explicit GradientReadsPause(const std::vector<at::Tensor>& parameters);
  ~GradientReadsPause();
  GradientReadsPause(const GradientReadsPause&) = delete;
  GradientReadsPause& operator=(const GradientReadsPause&) = delete;

 private:
  std::vector<std::shared_ptr<GradientWatch>> paused_;
};

// True if .grad() is defined. Does not count as a read.
bool holds_gradient(const at::Tensor& parameter);
// Returns the .grad tensor itself, from which the gradient can be taken. Does not count as zero_grad(). ZERO_CHECK
// fails if the parameter has no autograd metadata.
at::Tensor& gradient_slot(const at::Tensor& parameter);

}  // namespace zero
