#include "zero/torch/parameter_storage.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>

#include "zero/torch/dispatch_key.h"

namespace zero {
namespace {

// Marks our DataPtrs; the handle belongs to its ParameterStorage, so there is nothing to free.
void parameter_deleter(void*) {}

c10::DataPtr pointer_with(std::byte* data, ParameterHandle* handle, c10::DeviceType device) {
  return {data, handle, &parameter_deleter, c10::Device(device)};
}

}  // namespace

ParameterStorage::ParameterStorage(ParameterOwner& owner, int param, std::size_t bytes, c10::DeviceType device)
    : handle_(std::make_unique<ParameterHandle>(ParameterHandle{&owner, param})),
      storage_(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                     pointer_with(nullptr, handle_.get(), device),
                                                     c10::GetAllocator(device), /*resizable=*/false)) {}

void ParameterStorage::point_to(std::byte* data) {
  storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(pointer_with(data, handle_.get(), storage_.device_type()));
}

void ParameterStorage::give_back(c10::DataPtr data) {
  storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
}

ParameterHandle* ParameterStorage::of(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kParameterKey) || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<ParameterHandle>(
      &parameter_deleter);
}

}  // namespace zero
