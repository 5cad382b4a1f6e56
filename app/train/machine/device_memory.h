// device_memory_error(): the error if a GPU's memory is short during training: who holds how much, what would fit.
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
  MemoryCount held;                  // held by zero.cpp: the peak of each tag so far
  std::int64_t most_held = 0;        // the peak of their sum
  std::int64_t torch = 0;            // held by libtorch: activations and operators' own needs
  std::int64_t next_run_leaves = 0;  // left to libtorch if a budget is "auto"; 0: the budget is not "auto"
};

// Returns the bytes that a message says were requested ("Tried to allocate 2.00 GiB", "memory = 2.00 GiB: ..."); 0: it
// has no such number.
std::int64_t asked_bytes(std::string_view said);

// True if this message of libtorch says that the device is full. Errors of cuBLAS, cuDNN or the driver have no
// exception type of their own for it.
bool is_out_of_memory(std::string_view said);

// Returns an error under "memory". `step`: the step that was not finished. `said`: the message of the failed
// allocation.
ConfigError device_memory_error(const DeviceMemoryUse& use, std::int64_t step, std::string_view said);

}  // namespace zero
