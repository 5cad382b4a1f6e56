#include "zero/torch/pipeline/forward/absent_tensor.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>

#include "zero/base/error/check.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/seam/parameter_storage.h"

namespace zero {
namespace {

// The context of the storage's DataPtr.
struct AbsentData {
  int value = -1;
  c10::Storage filled_from{};
};

void delete_absent_data(void* context) {
  delete static_cast<AbsentData*>(context);
}

AbsentData* absent_data(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<AbsentData>(
      &delete_absent_data);
}

// Strides of dimensions of size 1 have no meaning.
bool same_strides(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t dim = 0; dim < a.dim(); ++dim)
    if (a.size(dim) > 1 && a.stride(dim) != b.stride(dim)) return false;
  return true;
}

}  // namespace

TensorLayout TensorLayout::of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(), tensor.requires_grad()};
}

std::string TensorLayout::text() const {
  return fmt::format("[{}] {}", fmt::join(sizes, ", "), c10::toString(type));
}

at::Tensor absent_tensor(int value, const TensorLayout& layout, const std::string& made_by) {
  const std::size_t bytes =
      at::detail::computeStorageNbytes(layout.sizes, layout.strides, c10::elementSize(layout.type));
  c10::DataPtr nothing(nullptr, new AbsentData{value}, &delete_absent_data, c10::DeviceType::CPU);
  const c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(nothing), c10::GetAllocator(c10::DeviceType::CPU),
      /*resizable=*/false));
  refuse_reads(*storage.unsafeGetStorageImpl(),
               fmt::format("{}: another section of the pipeline has this tensor, so its values cannot be read here "
                           "(data_ptr, accessor, item)\n"
                           "  Compute with operators of libtorch, and read values after passes().",
                           made_by));
  at::Tensor tensor = tensor_over(storage, layout.sizes, layout.type, /*keyed=*/false);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides);
  return tensor;
}

std::optional<int> absent_value(const at::Tensor& tensor) {
  const AbsentData* const data = absent_data(tensor);
  return data == nullptr ? std::nullopt : std::optional(data->value);
}

bool is_filled(const at::Tensor& absent) {
  const AbsentData* const data = absent_data(absent);
  return data != nullptr && data->filled_from;
}

at::Tensor with_own_bytes(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg();
}

void fill_absent(const at::Tensor& absent, const at::Tensor& values) {
  AbsentData* const data = absent_data(absent);
  ZERO_CHECK(data != nullptr && !data->filled_from, "a tensor is filled twice, or is not absent");
  ZERO_CHECK(absent.sizes() == values.sizes() && absent.scalar_type() == values.scalar_type(), "{} filled with {}",
             TensorLayout::of(absent).text(), TensorLayout::of(values).text());
  const c10::AutoGradMode no_gradients(false);
  at::Tensor source = values.detach();
  if (!same_strides(absent, source)) {
    source = at::empty_strided(absent.sizes(), absent.strides(), absent.options());
    source.copy_(values.detach());
  }
  c10::StorageImpl& storage = *absent.storage().unsafeGetStorageImpl();
  auto* const address = static_cast<std::byte*>(const_cast<void*>(source.const_data_ptr()));
  allow_reads(storage);
  storage.set_data_ptr_noswap(
      {address, new AbsentData{data->value, source.storage()}, &delete_absent_data, c10::Device(c10::DeviceType::CPU)});
}

}  // namespace zero
