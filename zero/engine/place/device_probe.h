// probe_device(): what StepModel needs to know of a device with memory of its own, measured for one rank in some ten milliseconds.
//
//   const DeviceRates rates = probe_device(device, spec_of(rule), free_bytes);
//
// Local: ranks that share a device or its link call it at once, as they use it at once in a step.
#pragma once

#include <cstdint>

#include "zero/base/numbers/state_spec.h"
#include "zero/device/device.h"

namespace zero {

constexpr std::int64_t kProbeParts = 16, kLeastProbe = std::int64_t{1} << 20;

struct DeviceRates {
  std::int64_t up = 0;            // bytes a second, from pinned memory to the device
  std::int64_t down = 0;          // and back
  std::int64_t update_numel = 0;  // elements a second, updated where they lie on the device
};

// Copies between two blocks of 32 MiB, or of a sixteenth of `free_bytes` where that is less, or of less where the device finds no room for it;
// all zeros where that is no MiB. An update of fp32 parameters is taken to be as fast as a copy within the device that reads
// and writes as many bytes: kernels of rules come within 2 % of that (8 bits: 26 %; docs/gpu.md). All that it allocates is
// given back. Throws DeviceError.
DeviceRates probe_device(Device& device, const OptimizerSpec& optimizer, std::int64_t free_bytes);

}  // namespace zero
