// DeviceArrays: copies of host arrays in a device's memory. bring() copies an array there, and take_back() copies all
// arrays back.
//
//   DeviceArrays arrays(device);
//   float* there = arrays.bring(values.data(), values.size());   // a null pointer or no element: the pointer itself
//   run(device, Lane::kUpdate, kernel, ...);
//   arrays.take_back();                                          // overwrites all host arrays
//
// A copy has exactly the alignment of its array.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "zero/device/device.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

class DeviceArrays {
 public:
  explicit DeviceArrays(Device& device) : device_(device) {}

  template <typename T>
  T* bring(T* host, std::size_t count) {
    if (host == nullptr || count == 0) return host;
    const std::size_t bytes = count * sizeof(T);
    Array& array = arrays_.emplace_back();
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(host) % kAlignment;
    array.memory = device_.allocate(bytes + offset);
    array.staging = device_.allocate_pinned(bytes);
    array.host = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(host));
    array.there = array.memory.bytes().subspan(offset, bytes);
    std::memcpy(array.staging.data(), array.host, bytes);
    device_.copy(Lane::kUpdate, array.there, array.staging.bytes().first(bytes));
    device_.join(device_.mark(Lane::kUpdate));
    return reinterpret_cast<T*>(array.there.data());
  }

  UpdateSpan bring(UpdateSpan span) {
    const auto count = static_cast<std::size_t>(span.numel);
    span.parameter = bring(span.parameter, count);
    span.gradient = bring(span.gradient, count * size_of(span.gradient_dtype));
    for (float*& state : span.states) state = bring(state, count);
    for (CodedState& state : span.coded) {
      state.codes = bring(state.codes, count);
      state.scales = bring(state.scales, (count + kCodeBlock - 1) / kCodeBlock);
    }
    span.low_precision = bring(span.low_precision, count * size_of(span.low_precision_dtype));
    return span;
  }

  void take_back() {
    for (const Array& array : arrays_)
      device_.copy(Lane::kUpdate, array.staging.bytes().first(array.there.size()), array.there);
    device_.join(device_.mark(Lane::kUpdate));
    for (const Array& array : arrays_) std::memcpy(array.host, array.staging.data(), array.there.size());
  }

 private:
  struct Array {
    Allocation memory, staging;
    std::byte* host = nullptr;
    std::span<std::byte> there;
  };
  static constexpr std::uintptr_t kAlignment = 256;

  Device& device_;
  std::vector<Array> arrays_;
};

}  // namespace zero
