// device_border: the one function of a plug-in that opens a device, libzero_device_cuda.so, and what the two sides say to
// each other.
//
//   auto open = reinterpret_cast<OpenDevice>(dlsym(library, "zero_open_device"));
//   DeviceFailure failure;
//   Device* device = open(&request, &failure);           // nullptr: see failure
//
// The plug-in includes our headers and links none of our libraries: it throws no error of ours, but calls the two functions of
// the request, which throw. Nothing is thrown out of the function itself.
#pragma once

#include <cstddef>

namespace zero {

class Device;

// 1 and up: another number, another plug-in.
constexpr int kDeviceVersion = 1;

struct DeviceRequest {
  int version = kDeviceVersion;
  int index = 0;  // of the GPU
  // Throws DeviceError: the device failed, now or in work that was queued before.
  void (*fail)(const char* what) = nullptr;
  // Throws ConfigError under "memory".
  void (*short_of_memory)(std::size_t bytes, const char* reason, const char* remedy) = nullptr;
};

struct DeviceFailure {
  // kNoDriver, kNoDevice: this machine has no GPU, so that "auto" is the host.
  enum class Kind : int { kNoDriver, kNoDevice, kOther };
  Kind kind = Kind::kOther;
  char reason[400] = {};
  char remedy[400] = {};
};

using OpenDevice = Device* (*)(const DeviceRequest* request, DeviceFailure* failure);

}  // namespace zero
