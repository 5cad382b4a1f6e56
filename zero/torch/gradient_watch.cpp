#include "zero/torch/gradient_watch.h"

#include <atomic>
#include <memory>
#include <typeinfo>
#include <utility>

#include <torch/csrc/autograd/variable.h>

namespace zero {
namespace {

using torch::autograd::AutogradMeta;

class WatchedMeta final : public AutogradMeta {
 public:
  // What a leaf's metadata holds; its mutex stays behind.
  explicit WatchedMeta(AutogradMeta& old) {
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
    read_.store(true, std::memory_order_relaxed);
    return AutogradMeta::grad();
  }
  bool take_reads() { return read_.exchange(false, std::memory_order_relaxed); }

 private:
  mutable std::atomic<bool> read_{false};
};

}  // namespace

void watch_gradient(const at::Tensor& parameter) {
  AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr || meta->grad_fn_ != nullptr) return;
  if (auto* const watched = dynamic_cast<WatchedMeta*>(meta)) {  // attached before
    watched->take_reads();
  } else if (typeid(*meta) == typeid(AutogradMeta)) {
    parameter.unsafeGetTensorImpl()->set_autograd_meta(std::make_unique<WatchedMeta>(*meta));
  }
}

bool take_gradient_reads(const at::Tensor& parameter) {
  auto* const watched = dynamic_cast<WatchedMeta*>(torch::autograd::impl::get_autograd_meta(parameter));
  return watched != nullptr && watched->take_reads();
}

bool holds_gradient(const at::Tensor& parameter) {
  AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->grad_.defined();
}

}  // namespace zero
