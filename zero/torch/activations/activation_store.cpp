#include "zero/torch/activations/activation_store.h"

#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <ATen/ops/empty_strided.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/torch/activations/activation_store_shared.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {

namespace {

bool can_leave(const at::Tensor& tensor, c10::Device place) {
  return tensor.device() == place && tensor.layout() == at::kStrided && tensor.numel() > 0 && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.key_set().has(kParameterKey);
}

// Returns the bytes from the first element to the last, gaps included: never more than the memory that would be kept.
std::size_t spanned_bytes(const at::Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * tensor.element_size();
}

template <typename Shared>
class OffloadedInput final : public torch::autograd::SavedVariableHooks {
 public:
  explicit OffloadedInput(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~OffloadedInput() override {
    if (!handle_ || shared_->made_here.in_child()) return;
    const std::lock_guard lock(shared_->mutex);
    shared_->activation_offload.forget(*handle_);
  }

  void call_pack_hook(const at::Tensor& tensor) override {
    shared_->made_here.refuse_in_child();
    if (!can_leave(tensor, shared_->place)) {
      kept_ = tensor;
      kept_version_ = tensor._version();
      return;
    }
    sizes_ = tensor.sizes().vec();
    strides_ = tensor.strides().vec();
    type_ = tensor.scalar_type();
    const std::lock_guard lock(shared_->mutex);
    handle_ = shared_->activation_offload.offload(
        {static_cast<const std::byte*>(tensor.const_data_ptr()), spanned_bytes(tensor)});
  }

  at::Tensor call_unpack_hook() override {
    shared_->made_here.refuse_in_child();
    if (!handle_) return unchanged();
    at::Tensor tensor = at::empty_strided(sizes_, strides_, at::TensorOptions(type_).device(shared_->place));
    const std::lock_guard lock(shared_->mutex);
    shared_->activation_offload.bring(*handle_,
                                      {static_cast<std::byte*>(tensor.mutable_data_ptr()), spanned_bytes(tensor)});
    return tensor;
  }

 private:
  at::Tensor unchanged() const {
    if (kept_._version() != kept_version_)
      throw ConfigError("checkpoint", fmt::format("an input of type {}", kept_.toString()),
                        "was modified by an inplace operation between the passes", "write to a clone()");
    return kept_;
  }

  std::shared_ptr<Shared> shared_;
  std::optional<ActivationOffload::Handle> handle_;
  std::vector<std::int64_t> sizes_, strides_;
  at::ScalarType type_ = at::kFloat;
  at::Tensor kept_;
  std::int64_t kept_version_ = 0;
};

}  // namespace

ActivationStore::ActivationStore(ActivationOffloadOptions options)
    : ActivationStore(Shared::make(std::move(options), DiskSeam::or_none(nullptr))) {}

std::unique_ptr<ActivationStore> make_activation_store(ActivationOffloadOptions options, const DiskSeam& seam) {
  return std::make_unique<ActivationStore>(ActivationStore::Shared::make(std::move(options), seam));
}

ActivationStore::~ActivationStore() = default;

void ActivationStore::open() {
  const std::lock_guard lock(shared_->mutex);
  shared_->activation_offload.open();
}

void ActivationStore::record(Timeline* timeline) {
  const std::lock_guard lock(shared_->mutex);
  shared_->activation_offload.record(timeline);
}

CheckpointOptions ActivationStore::checkpoint_options() const {
  return {.keep = [shared = shared_] { return std::make_unique<OffloadedInput<Shared>>(shared); }};
}

ActivationReport ActivationStore::report() const {
  const std::lock_guard lock(shared_->mutex);
  ActivationReport report{.activation_offload = shared_->activation_offload.report()};
  for (const Tier tier : kAllTiers) {
    report.held[tier] = shared_->ledger.held(tier);
    report.peak[tier] = shared_->ledger.peak(tier);
  }
  return report;
}

}  // namespace zero
