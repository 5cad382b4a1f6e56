// device_memory_error(): a GPU's memory is short while a run trains: who holds how much of it, and what would have fitted.
//
//   try { training.take(...); }
//   catch (const c10::OutOfMemoryError& error) { throw device_memory_error(use, error.what()); }
//
// Values only. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "zero/base/error/error.h"
#include "zero/memory/account/ledger.h"

namespace zero {

struct DeviceMemoryUse {
  std::string device;                // "cuda:0"
  MemoryCount held;                  // by zero.cpp, the most of each tag so far
  std::int64_t most_held = 0;        // the most of their sum
  std::int64_t torch = 0;            // by libtorch: activations, and what operators need for themselves
  std::int64_t next_run_leaves = 0;  // to libtorch, where a budget is "auto"; 0: it is not
};

// Bytes that a message says were asked for ("Tried to allocate 2.00 GiB", "memory = 2.00 GiB: ..."); 0: it says none.
std::int64_t asked_bytes(std::string_view said);

// Is this libtorch's word for a device that is full, though of no type of its own: of cuBLAS, cuDNN or the driver?
bool says_out_of_memory(std::string_view said);

// Under "memory". `step`: the one that was not finished. `said`: by whoever found no room.
ConfigError device_memory_error(const DeviceMemoryUse& use, std::int64_t step, std::string_view said);

}  // namespace zero
