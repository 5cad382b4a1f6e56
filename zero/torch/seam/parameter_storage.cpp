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

ParameterStorage::ParameterStorage(ParameterOwner& owner, int param, const std::string& name, std::size_t bytes,
                                   c10::Device device)
    : handle_(std::make_unique<ParameterHandle>(ParameterHandle{&owner, param})),
      storage_(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                     pointer_with(nullptr, handle_.get(), device),
                                                     c10::GetAllocator(device.type()), /*resizable=*/false)) {
  storage_.unsafeGetStorageImpl()->get_extra_meta().custom_data_ptr_error_msg_ = fmt::format(
      "{}: this parameter of an attached module is not gathered, so its memory cannot be read directly (torch::save, "
      "data_ptr, accessor, DLPack)\n"
      "  Write the module's weights with engine.export_weights(\"model.safetensors\"), or do it inside a scope of "
      "engine.gathered(module). All ranks take part in both.",
      name);
  point_to(nullptr);
}

void ParameterStorage::point_to(std::byte* data) {
  set(pointer_with(data, handle_.get(), storage_.device()));
}

void ParameterStorage::give_back(c10::DataPtr data) {
  set(std::move(data));
}

void ParameterStorage::leave_empty(const std::string& name) {
  storage_.unsafeGetStorageImpl()->get_extra_meta().custom_data_ptr_error_msg_ = fmt::format(
      "{}: this parameter has no values: its engine was abandoned, or ended by an error, without giving them back\n"
      "  Load a checkpoint into a new engine.",
      name);
  set(c10::DataPtr(nullptr, storage_.device()));
}

void ParameterStorage::set(c10::DataPtr data) {
  c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
  storage.*refuses_reads() = data.get() == nullptr && storage.nbytes() > 0 && !data.device().is_meta();
  storage.set_data_ptr_noswap(std::move(data));  // writers also check the flag after this call
}

ParameterHandle* ParameterStorage::of(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kParameterKey) || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<ParameterHandle>(
      &parameter_deleter);
}

}  // namespace zero
