#include "zero/torch/attached/attached_gradients.h"

#include <algorithm>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/torch/seam/gradient_hook.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {

AttachedGradients::AttachedGradients(const AttachedParameters& parameters, ParameterOwner& owner)
    : parameters_(parameters), owner_(owner), hooks_(parameters.specs().size()) {}

AttachedGradients::~AttachedGradients() {
  for (const Hook& hook : hooks_)
    if (hook.node != nullptr) hook.node->del_post_hook(hook.key);
}

void AttachedGradients::watch(const Unit& unit) {
  for (const Slice& slice : unit.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    watch_gradient(parameters_.tensors()[param], watch_);
    if (unit.trainable) install_hook(param);
  }
}

void AttachedGradients::install_hook(std::size_t param) {
  auto node = torch::autograd::impl::grad_accumulator(parameters_.tensors()[param]);
  ZERO_CHECK(node != nullptr, "{} has no gradient accumulator", parameters_.specs()[param].name);
  hooks_[param].key = node->add_post_hook(std::make_unique<GradientHook>(owner_, static_cast<int>(param)));
  hooks_[param].node = std::move(node);
}

torch::Tensor AttachedGradients::take(int param) const {
  torch::Tensor& slot = gradient_slot(parameters_.tensor(param));
  if (!slot.defined()) return {};
  c10::AutoGradMode no_gradients(false);
  torch::Tensor gradient = slot.detach();
  slot.reset();
  if (gradient.layout() != at::kStrided) gradient = gradient.to_dense();
  // The engine reads bytes, and the bytes of a lazily negated gradient have the other sign.
  return gradient.to(to_scalar_type(parameters_.spec(param).dtype)).resolve_neg().contiguous();
}

std::vector<bool> AttachedGradients::take_zeroed() {
  watch_->zeroed = false;
  const std::vector<torch::Tensor>& tensors = parameters_.tensors();
  std::vector<bool> zeroed(tensors.size(), false);
  bool all = true;
  for (std::size_t param = 0; param < tensors.size(); ++param) {
    zeroed[param] = zero::take_zeroed(tensors[param]);
    all = all && (zeroed[param] || !parameters_.specs()[param].trainable || !is_watched(tensors[param]));
  }
  if (all) zeroed.assign(tensors.size(), true);
  return zeroed;
}

void AttachedGradients::are_gone() const {
  ++watch_->step;
  forget_gradient_reads(parameters_.tensors());
}

void AttachedGradients::are_gone(const std::vector<bool>& params) const {
  for (std::size_t param = 0; param < params.size(); ++param)
    if (params[param]) gradient_is_gone(parameters_.tensors()[param]);
}

void AttachedGradients::refuse_elsewhere() const {
  const torch::Tensor *read = nullptr, *held = nullptr;
  const std::vector<torch::Tensor>& tensors = parameters_.tensors();
  for (const torch::Tensor& tensor : tensors) {
    if (take_gradient_reads(tensor) && read == nullptr) read = &tensor;
    if (holds_gradient(tensor) && held == nullptr) held = &tensor;
  }
  const auto name = [&](const torch::Tensor* tensor) {
    return parameters_.specs()[static_cast<std::size_t>(tensor - tensors.data())].name;
  };
  if (held != nullptr)
    throw ConfigError("attach", name(held), "its .grad() holds a gradient, and step() does not use .grad()",
                      "compute all gradients with loss.backward(), and set requires_grad before attach()");
  if (read != nullptr)
    throw ConfigError(
        "attach", name(read),
        "its .grad() was read, and it is always empty: the engine has the gradients, so clip_grad_norm_() and another "
        "optimizer's step() do nothing",
        "use AttachOptions.clip and AttachOptions.optimizer, and remove such calls; gradient() reads a gradient");
}

void AttachedGradients::warn_of_reads() const {
  const std::vector<torch::Tensor>& tensors = parameters_.tensors();
  const auto read = std::ranges::find_if(tensors, take_gradient_reads);
  if (read == tensors.end()) return;
  ZERO_LOG(warn,
           "the .grad() of {} was read since the last step(): it is always empty while the module is attached, so "
           "clip_grad_norm_() and another optimizer's step() do nothing",
           parameters_.specs()[static_cast<std::size_t>(read - tensors.begin())].name);
}

}  // namespace zero
