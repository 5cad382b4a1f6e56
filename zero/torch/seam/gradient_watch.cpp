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
    if (finds_nothing_wrongly()) read_.store(true, kRelaxed);
    return AutogradMeta::grad();
  }
  at::Tensor& mutable_grad() override {
    if (!within_backward()) mark_zeroed();
    return AutogradMeta::mutable_grad();
  }
  void mark_zeroed() {
    zeroed_.store(true, kRelaxed);
    watch_->zeroed.store(true, kRelaxed);
    gradient_is_gone();
  }
  void gradient_has_come() {
    step_of_gradient_.store(watch_->step.load(kRelaxed), kRelaxed);
    moves_.store(false, kRelaxed);
  }
  void gradient_is_gone() {
    step_of_gradient_.store(-1, kRelaxed);
    take_reads();
  }
  // Module.to() of Python compares the types of a parameter's old and new data, and then reads .grad() to move it.
  void expect_move() { moves_.store(true, kRelaxed); }
  bool take_reads() {
    moves_.store(false, kRelaxed);
    return read_.exchange(false, kRelaxed);
  }
  bool take_zeroed() { return zeroed_.exchange(false, kRelaxed); }
  void watch_anew(std::shared_ptr<GradientWatch> watch) {
    watch_ = std::move(watch);
    gradient_is_gone();
    take_zeroed();
  }
  const std::shared_ptr<GradientWatch>& shared_watch() const { return watch_; }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  static bool within_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

  // True if .grad() is undefined, and libtorch without an engine would have the gradient in it.
  bool finds_nothing_wrongly() const {
    if (step_of_gradient_.load(kRelaxed) != watch_->step.load(kRelaxed)) return false;
    if (moves_.exchange(false, kRelaxed)) return false;
    return !grad_.defined() && watch_->pauses.load(kRelaxed) == 0 && !within_backward();
  }

  std::shared_ptr<GradientWatch> watch_;
  std::atomic<std::int64_t> step_of_gradient_{-1};  // the step for which the engine has taken a gradient; -1: none
  mutable std::atomic<bool> read_{false};
  mutable std::atomic<bool> moves_{false};
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

void gradient_has_come(const at::Tensor& parameter) {
  if (WatchedMeta* const watched = watched_meta(parameter)) watched->gradient_has_come();
}

void gradient_is_gone(const at::Tensor& parameter) {
  if (WatchedMeta* const watched = watched_meta(parameter)) watched->gradient_is_gone();
}

void expect_move(const at::Tensor& parameter) {
  if (WatchedMeta* const watched = watched_meta(parameter)) watched->expect_move();
}

void mark_zeroed(const at::Tensor& parameter) {
  if (WatchedMeta* const watched = watched_meta(parameter)) watched->mark_zeroed();
}

void forget_gradient_reads(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) take_gradient_reads(parameter);
}

GradientReadsPause::GradientReadsPause(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    WatchedMeta* const watched = watched_meta(parameter);
    if (watched == nullptr) continue;
    std::shared_ptr<GradientWatch> watch = watched->shared_watch();
    if (!paused_.empty() && paused_.back() == watch) continue;  // parameters of one model are neighbours
    ++watch->pauses;
    paused_.push_back(std::move(watch));
  }
}

GradientReadsPause::~GradientReadsPause() {
  for (const std::shared_ptr<GradientWatch>& watch : paused_) --watch->pauses;
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
