#include "zero/torch/seam/gradient_watch.h"

#include <typeinfo>
#include <utility>

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"

namespace zero {
namespace {

using torch::autograd::AutogradMeta;

class WatchedMeta final : public AutogradMeta {
 public:
  // Moves the members of a leaf's metadata, except its mutex.
  WatchedMeta(AutogradMeta& old, std::shared_ptr<GradientWatch> watch) : watch_(std::move(watch)) {
    name_ = std::move(old.name_);
    grad_ = std::move(old.grad_);
    grad_accumulator_ = std::move(old.grad_accumulator_);
    fw_grad_ = std::exchange(old.fw_grad_, nullptr);
    hooks_ = std::move(old.hooks_);
    cpp_hooks_list_ = std::move(old.cpp_hooks_list_);
    post_acc_grad_hooks_ = std::move(old.post_acc_grad_hooks_);
    requires_grad_ = old.requires_grad_;
    retains_grad_ = old.retains_grad_;
    output_nr_ = old.output_nr_;
    grad_dtype_ = old.grad_dtype_;
    allow_grad_dtype_mismatch_ = old.allow_grad_dtype_mismatch_;
  }

  const at::Tensor& grad() const override {
    if (watch_->gradients_wait.load(std::memory_order_relaxed)) read_.store(true, std::memory_order_relaxed);
    return AutogradMeta::grad();
  }
  at::Tensor& mutable_grad() override {
    if (torch::autograd::get_current_graph_task_id() == -1) {
      zeroed_.store(true, std::memory_order_relaxed);
      watch_->zeroed.store(true, std::memory_order_relaxed);
    }
    return AutogradMeta::mutable_grad();
  }
  bool take_reads() { return read_.exchange(false, std::memory_order_relaxed); }
  bool take_zeroed() { return zeroed_.exchange(false, std::memory_order_relaxed); }
  void watch_anew(std::shared_ptr<GradientWatch> watch) {
    watch_ = std::move(watch);
    take_reads();
    take_zeroed();
  }

 private:
  std::shared_ptr<GradientWatch> watch_;
  mutable std::atomic<bool> read_{false};
  std::atomic<bool> zeroed_{false};
};

WatchedMeta* watched_meta(const at::Tensor& parameter) {
  return dynamic_cast<WatchedMeta*>(torch::autograd::impl::get_autograd_meta(parameter));
}

}  // namespace

void watch_gradient(const at::Tensor& parameter, std::shared_ptr<GradientWatch> watch) {
  AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr || meta->grad_fn_ != nullptr) return;
  if (WatchedMeta* const watched = watched_meta(parameter)) {  // attached before
    watched->watch_anew(std::move(watch));
  } else if (typeid(*meta) == typeid(AutogradMeta)) {
    parameter.unsafeGetTensorImpl()->set_autograd_meta(std::make_unique<WatchedMeta>(*meta, std::move(watch)));
  }
}

bool is_watched(const at::Tensor& parameter) {
  return watched_meta(parameter) != nullptr;
}

bool take_gradient_reads(const at::Tensor& parameter) {
  WatchedMeta* const watched = watched_meta(parameter);
  return watched != nullptr && watched->take_reads();
}

bool take_zeroed(const at::Tensor& parameter) {
  WatchedMeta* const watched = watched_meta(parameter);
  return watched != nullptr && watched->take_zeroed();
}

bool holds_gradient(const at::Tensor& parameter) {
  AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->grad_.defined();
}

at::Tensor& gradient_slot(const at::Tensor& parameter) {
  AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  ZERO_CHECK(meta != nullptr, "a parameter without autograd metadata has a gradient");
  return meta->grad_;
}

}  // namespace zero
