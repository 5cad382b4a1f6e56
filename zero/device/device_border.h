// device_border: the two functions of the plug-in libzero_device_cuda.so, and what the two sides say to each other.
//
//   auto open = reinterpret_cast<OpenDevice>(dlsym(library, "zero_open_device"));
//   DeviceFailure failure;
//   Device* device = open(&request, &failure);           // nullptr: see failure
//   auto find = reinterpret_cast<FindGpus>(dlsym(library, "zero_find_gpus"));
//   GpuList list;
//   find(&list, &failure);                               // false: see failure
//
// The plug-in includes our headers and links none of our libraries: it throws no error of ours, but calls the two functions of
// the request, which throw. Nothing is thrown out of its functions themselves.
#pragma once

#include <cstddef>

namespace zero {

class Device;

// 1 and up: another number, another plug-in.
constexpr int kDeviceVersion = 6;

struct DeviceRequest {
  int version = kDeviceVersion;
  int index = 0;  // of the GPU
  // Throws DeviceError: the device failed, now or in work that was queued before.
  void (*fail)(const char* what) = nullptr;
  // Throws ConfigError under "memory": the device's.
  void (*short_of_memory)(std::size_t bytes, const char* reason, const char* remedy) = nullptr;
  // The same under "zero.host_memory": the system pins no more of the host's.
  void (*short_of_host_memory)(std::size_t bytes, const char* reason, const char* remedy) = nullptr;
};

struct DeviceFailure {
  // kNoDriver, kNoDevice: this machine has no GPU, so that "auto" is the host.
  enum class Kind : int { kNoDriver, kNoDevice, kOther };
  Kind kind = Kind::kOther;
  char reason[400] = {};
  char remedy[400] = {};
};

// What the driver says of its GPUs.
struct GpuFacts {
  char name[256] = {};
  int capability = 0;  // 90 for 9.0
  bool has_memory = false;
  std::size_t free_bytes = 0, total_bytes = 0;
};
struct GpuList {
  static constexpr int kMost = 64;
  int version = kDeviceVersion;
  bool looks_at_memory = false;  // asked for: it takes a moment and some memory on each GPU
  int only = -1;                 // the GPU whose memory is asked for; -1: all
  int driver = 0;                // newest CUDA that the driver knows: 13000 for 13.0; 0: there is no driver
  int num_gpus = 0;
  GpuFacts gpus[kMost];
};

using FindGpus = bool (*)(GpuList* list, DeviceFailure* failure);
using OpenDevice = Device* (*)(const DeviceRequest* request, DeviceFailure* failure);

}  // namespace zero
