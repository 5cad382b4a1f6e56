// place_of(), adopt_stream(): what libtorch calls a device of ours, and the stream in which its operators run there.
//
//   at::empty({n}, at::TensorOptions().device(place_of(device)));
//   adopt_stream(device);             // before the model computes, on its thread
//
// Local.
#pragma once

#include <c10/core/Device.h>

#include "zero/device/device.h"

namespace zero {

// cuda:N for a device of that name; else the CPU.
c10::Device place_of(const Device& device);

// From now on the lane kCompute is the stream that this thread uses on the device. No-op on the CPU.
void adopt_stream(Device& device);

}  // namespace zero
