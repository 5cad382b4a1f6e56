// outer_memory(): memory of an outer step. Collective over the ranks that share it; empty where no bytes are needed.
#pragma once

#include <cstdint>

#include "zero/comm/communicator.h"

namespace zero {

inline Allocation outer_memory(Communicator& comm, std::int64_t bytes) {
  return bytes == 0 ? Allocation() : comm.allocate(static_cast<std::size_t>(bytes));
}

inline float* floats(const Allocation& memory) {
  return reinterpret_cast<float*>(memory.data());
}

}  // namespace zero
