// AttachedGradients: the gradients of an attached model's parameters, from autograd to the engine.
//
//   gradients.watch(unit);                         // from now on autograd tells `owner` about each gradient
//   torch::Tensor gradient = gradients.take(7);    // .grad of parameter 7 is empty afterwards
//   gradients.has_come(7);                         // the engine has it
//   gradients.are_gone();                          // the step is over
//
// It also finds mistakes: reads of .grad(), gradients that somebody else has set, and calls of zero_grad(). Local.
#pragma once

#include <memory>
#include <vector>

#include "zero/torch/attached/attached_parameters.h"
#include "zero/torch/seam/gradient_watch.h"

namespace torch::autograd {
struct Node;
}

namespace zero {

class AttachedGradients {
 public:
  // Both arguments must outlive the object.
  AttachedGradients(const AttachedParameters& parameters, ParameterOwner& owner);
  ~AttachedGradients();
  AttachedGradients(const AttachedGradients&) = delete;
  AttachedGradients& operator=(const AttachedGradients&) = delete;

  // Call it once for each unit, after AttachedParameters::take_over().
  void watch(const Unit& unit);

  // Takes the gradient that autograd has stored in .grad, in the parameter's dtype and contiguous. .grad is empty
  // afterwards. The result is undefined if there is no gradient.
  torch::Tensor take(int param) const;

  // True if zero_grad() was called on a parameter since take_zeroed().
  bool any_zeroed() const { return watch_->zeroed.load(std::memory_order_relaxed); }
  // Returns, by parameter, whether zero_grad() was called on it. All are true if it was called on every parameter that
  // can be watched and trained.
  std::vector<bool> take_zeroed();
  // Record that the engine has taken a gradient of `param`, that the gradients of some parameters were dropped, or that
  // the step is over.
  void has_come(int param) const { gradient_has_come(parameters_.tensor(param)); }
  void are_gone(const std::vector<bool>& params) const;
  void are_gone() const;

  // Throws ConfigError with the name of a parameter whose .grad() is defined, or was read since the last call although
  // its gradient had gone to the engine.
  void refuse_elsewhere() const;
  // Makes the same check at the end, as a warning.
  void warn_of_reads() const;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // owned here, because the graph holds it weakly
    std::uintptr_t key = 0;
  };
  void install_hook(std::size_t param);

  const AttachedParameters& parameters_;
  ParameterOwner& owner_;
  std::vector<Hook> hooks_;
  std::shared_ptr<GradientWatch> watch_ = std::make_shared<GradientWatch>();
};

}  // namespace zero
