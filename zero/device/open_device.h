// open_device(): the device that a name stands for: "auto", "cpu", "cuda" or "cuda:1".
//
//   const std::unique_ptr<Device> device = open_device("auto");      // the first GPU, or main memory where there is none
//   device->name()                                                   // "cuda:0" or "host"
//
// A GPU's code is a plug-in, libzero_device_cuda.so, which is opened when a GPU is asked for, and stays. "auto" is main memory
// where there is no plug-in, no driver or no GPU; a GPU that is there and cannot be used is an error. Local.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "zero/device/device.h"

namespace zero {

// The path of the plug-in; "" if it is not there.
std::string cuda_plugin();

// Throws ConfigError under "run.device": for an unknown name, and where the GPU cannot be used: no plug-in, no driver, a
// driver that is too old, no such GPU, no room on it.
std::unique_ptr<Device> open_device(std::string_view name, const std::string& plugin = cuda_plugin());

}  // namespace zero
