#include "zero/device/element_kernels.h"

namespace zero {
namespace {

void cast_host(const ElementArguments& a) {
  convert_elements(a.from, a.from_dtype, a.to, a.to_dtype, a.numel);
}

void add_host(const ElementArguments& a) {
  with_type_of(a.from_dtype, [&]<typename From>(std::type_identity<From>) {
    with_type_of(a.to_dtype, [&]<typename To>(std::type_identity<To>) {
      const auto* from = reinterpret_cast<const From*>(a.from);
      auto* to = reinterpret_cast<To*>(a.to);
      for (std::int64_t i = 0; i < a.numel; ++i) to[i] = rounded_to<To>(to_float(to[i]) + to_float(from[i]));
    });
  });
}

void round_host(const ElementArguments& a) {
  with_type_of(a.from_dtype, [&]<typename T>(std::type_identity<T>) {
    auto* values = reinterpret_cast<float*>(a.to);
    for (std::int64_t i = 0; i < a.numel; ++i) values[i] = to_float(rounded_to<T>(values[i]));
  });
}

std::span<const std::byte> from_bytes(const ElementArguments& a) {
  return {a.from, static_cast<std::size_t>(a.numel) * size_of(a.from_dtype)};
}
std::span<std::byte> to_bytes(const ElementArguments& a) {
  return {a.to, static_cast<std::size_t>(a.numel) * size_of(a.to_dtype)};
}

}  // namespace

const Kernel kCast = kernel_of<ElementArguments, &cast_host>("cast");
const Kernel kAdd = kernel_of<ElementArguments, &add_host>("add");
const Kernel kRound = kernel_of<ElementArguments, &round_host>("round");

void cast(Device& device, Lane lane, const ElementArguments& a) {
  if (a.from_dtype == a.to_dtype) return device.copy(lane, to_bytes(a), from_bytes(a));
  run(device, lane, kCast, a, {reads(from_bytes(a)), writes(to_bytes(a))});
}

void add(Device& device, Lane lane, const ElementArguments& a) {
  run(device, lane, kAdd, a, {reads(from_bytes(a)), changes(to_bytes(a))});
}

void round_to(Device& device, Lane lane, DType dtype, std::span<float> values) {
  run(device, lane, kRound,
      ElementArguments{.from_dtype = dtype,
                       .to = reinterpret_cast<std::byte*>(values.data()),
                       .numel = static_cast<std::int64_t>(values.size())},
      {changes(values)});
}

}  // namespace zero
