// outer_memory(): allocates the memory of an outer step. Collective over the ranks that share it; empty for 0 bytes.
#pragma once

#include <cstdint>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"

namespace zero {

inline Allocation outer_memory(Communicator& comm, std::int64_t bytes) {
  return bytes == 0 ? Allocation() : comm.allocate(static_cast<std::size_t>(bytes));
}

inline float* floats(const Allocation& memory) {
  return reinterpret_cast<float*>(memory.data());
}

// An outer step accesses its memory in kReduce.
inline void zero_floats(Device& device, float* values, std::int64_t numel) {
  device.fill(Lane::kReduce, {reinterpret_cast<std::byte*>(values), static_cast<std::size_t>(numel) * sizeof(float)},
              std::byte{0});
}
inline void copy_floats(Device& device, const float* from, float* to, std::int64_t numel) {
  const std::size_t bytes = static_cast<std::size_t>(numel) * sizeof(float);
  device.copy(Lane::kReduce, {reinterpret_cast<std::byte*>(to), bytes},
              {reinterpret_cast<const std::byte*>(from), bytes});
}

}  // namespace zero
