#include "zero/torch/seam/parameter_storage.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "zero/torch/seam/dispatch_key.h"

namespace zero {

// A storage of libtorch can refuse reads with a given text, but no public function removes this refusal. The private
// flag can be cleared: an explicit instantiation may name a private member.
using RefusesReads = bool c10::StorageImpl::*;
RefusesReads refuses_reads();
template <RefusesReads kFlag>
struct RefusesReadsFlag {
  friend RefusesReads refuses_reads() { return kFlag; }
};
template struct RefusesReadsFlag<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

namespace {

// Writers check the flag only after a pointer was set.
void set_refusal(c10::StorageImpl& storage, bool refuses) {
  storage.*refuses_reads() = refuses;
  c10::DataPtr data = std::move(storage._mutable_data_ptr_no_checks());
  storage.set_data_ptr_noswap(std::move(data));
}

}  // namespace

void refuse_reads(c10::StorageImpl& storage, const std::string& text) {
  storage.get_extra_meta().custom_data_ptr_error_msg_ = text;
  set_refusal(storage, storage.nbytes() > 0);
}

void allow_reads(c10::StorageImpl& storage) {
  set_refusal(storage, false);
}

at::Tensor ParameterOwner::rows_of_all_ranks(int /*param*/, const at::Tensor& rows) {
  return rows;
}

namespace {

// Marks DataPtrs of zero.cpp. The handle belongs to its ParameterStorage, so there is nothing to free.
void parameter_deleter(void*) {}

c10::DataPtr pointer_with(std::byte* data, ParameterHandle* handle, c10::Device device) {
  return {data, handle, &parameter_deleter, device};
}

}  // namespace

void ParameterReaders::add() {
  const std::lock_guard lock(mutex_);
  if (++num_ == 1) update_refusal();
}

void ParameterReaders::remove() noexcept {
  const std::lock_guard lock(mutex_);
  if (--num_ == 0) update_refusal();
}

void ParameterReaders::add_scope() {
  num_scopes_.fetch_add(1, std::memory_order_relaxed);
  add();
}

void ParameterReaders::remove_scope() noexcept {
  remove();
  num_scopes_.fetch_sub(1, std::memory_order_relaxed);
}

void ParameterReaders::point_to(c10::DataPtr data) {
  const std::lock_guard lock(mutex_);
  storage_.*refuses_reads() = true;  // if it is true during the next call, writers always check it
  storage_.set_data_ptr_noswap(std::move(data));
  update_refusal();
}

void ParameterReaders::update_refusal() noexcept {
  const c10::DataPtr& data = storage_._mutable_data_ptr_no_checks();
  const bool may_read = num_ > 0 && data.get() != nullptr;
  storage_.*refuses_reads() = !may_read && storage_.nbytes() > 0 && !data.device().is_meta();
}

ParameterStorage::ParameterStorage(ParameterOwner& owner, int param, const std::string& name, std::size_t bytes,
                                   c10::Device device)
    : storage_(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                     c10::DataPtr(nullptr, device), c10::GetAllocator(device.type()),
                                                     /*resizable=*/false)),
      handle_(std::make_unique<ParameterHandle>(&owner, param, *storage_.unsafeGetStorageImpl())) {
  storage_.unsafeGetStorageImpl()->get_extra_meta().custom_data_ptr_error_msg_ = fmt::format(
      "{}: this parameter of an attached module has memory only while an operator uses it, so its memory cannot be "
      "read directly (torch::save, pickle, data_ptr, accessor, DLPack)\n"
      "  Write the module's weights with engine.export_weights(\"model.safetensors\"), in Python engine.export(). Read "
      "a pointer within a scope of engine.use({{parameter}}), in Python engine.using(parameter), and write through it "
      "within engine.gathered(module). All ranks take part in each.",
      name);
  point_to(nullptr);
}

void ParameterStorage::point_to(std::byte* data) {
  handle_->readers.point_to(pointer_with(data, handle_.get(), storage_.device()));
}

void ParameterStorage::give_back(c10::DataPtr data) {
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.*refuses_reads() = false;
  storage.set_data_ptr_noswap(std::move(data));
}

void ParameterStorage::leave_empty(const std::string& name) {
  storage_.unsafeGetStorageImpl()->get_extra_meta().custom_data_ptr_error_msg_ = fmt::format(
      "{}: this parameter has no values: its engine was abandoned, or ended by an error, without giving them back\n"
      "  Load a checkpoint into a new engine.",
      name);
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.*refuses_reads() = storage.nbytes() > 0 && !storage_.device().is_meta();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage_.device()));  // writers also check the flag after this call
}

ParameterHandle* ParameterStorage::of(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kParameterKey) || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<ParameterHandle>(
      &parameter_deleter);
}

}  // namespace zero
