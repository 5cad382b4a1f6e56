// probe_device(): measures the rates of a device with its own memory for StepModel, for one rank, in some 10 ms.
//
//   const DeviceRates rates = probe_device(device, spec_of(rule), free_bytes);
//
// Local. Ranks that share a device or its link call it at once, as they use it at once in a step.
#pragma once

#include <cstdint>

#include "zero/base/numbers/state_spec.h"
#include "zero/device/device.h"

namespace zero {

constexpr std::int64_t kProbeParts = 16, kLeastProbe = std::int64_t{1} << 20;

struct DeviceRates {
  std::int64_t up = 0;            // bytes a second, from pinned memory to the device
  std::int64_t down = 0;          // and back
  std::int64_t update_numel = 0;  // elements a second, updated on the device
};

// Copies between two blocks of 32 MiB, or 1/16 of `free_bytes` if that is less, or less if the device has no room.
// Returns zeros if that is below 1 MiB. The update of fp32 parameters is taken to be as fast as a copy within the
// device of as many bytes. Kernels of rules are within 2 % of that (8 bits: 26 %; docs/gpu.md). All memory is freed.
// Throws DeviceError.
DeviceRates probe_device(Device& device, const OptimizerSpec& optimizer, std::int64_t free_bytes);

}  // namespace zero
