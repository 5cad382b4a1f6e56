// Kernel: a computation on elements, with separate code for each kind of device under one name.
//
//   constexpr Kernel kScale = kernel_of<ScaleArguments, &scale_host>("scale");
//   run(device, Lane::kUpdate, kScale, ScaleArguments{data, numel, 0.5F}, {writes(bytes)});
//
// The kernel contains the host's code. A device that the host cannot read finds its own code by the name, or refuses.
// Arguments are plain data: they are copied when the kernel is queued, and their pointers are device addresses.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

namespace zero {

// Bytes that an operation on a device reads, writes, or both.
struct Access {
  std::span<const std::byte> bytes;
  bool reads = false;
  bool writes = false;
};

template <typename T>
Access reads(std::span<T> elements) {
  return {.bytes = std::as_bytes(elements), .reads = true};
}
template <typename T>
Access writes(std::span<T> elements) {
  return {.bytes = std::as_bytes(elements), .writes = true};
}
template <typename T>
Access changes(std::span<T> elements) {
  return {.bytes = std::as_bytes(elements), .reads = true, .writes = true};
}

struct Kernel {
  std::string_view name;
  void (*host)(const void* arguments);
};

template <typename Arguments, void (*code)(const Arguments&)>
constexpr Kernel kernel_of(std::string_view name) {
  static_assert(std::is_trivially_copyable_v<Arguments>, "arguments are copied as bytes");
  return {name, [](const void* arguments) { code(*static_cast<const Arguments*>(arguments)); }};
}

// A kernel with its arguments, during one call of Device::run().
struct KernelCall {
  const Kernel& kernel;
  std::span<const std::byte> arguments;
  std::span<const Access> accesses;  // all device memory that the kernel accesses
};

}  // namespace zero
