// device_border: the two functions of the plug-in libzero_device_cuda.so, and the types that both sides exchange.
//
//   auto open = reinterpret_cast<OpenDevice>(dlsym(library, "zero_open_device"));
//   DeviceFailure failure;
//   Device* device = open(&request, &failure);           // nullptr: see failure
//   auto find = reinterpret_cast<FindGpus>(dlsym(library, "zero_find_gpus"));
//   GpuList list;
//   find(&list, &failure);                               // false: see failure
//
// The plug-in includes our headers, but links none of our libraries. Instead of throwing our errors, it calls the
// request's functions, which throw. Its own functions throw nothing.
#pragma once

#include <cstddef>

namespace zero {

class Device;

// From 1. Plug-ins with another number are refused.
constexpr int kDeviceVersion = 6;

struct DeviceRequest {
  int version = kDeviceVersion;
  int index = 0;  // number of the GPU
  // Throws DeviceError: the device failed, now or in earlier queued work.
  void (*fail)(const char* what) = nullptr;
  // Throws ConfigError under "memory": the device's memory is short.
  void (*short_of_memory)(std::size_t bytes, const char* reason, const char* remedy) = nullptr;
  // Throws ConfigError under "zero.host_memory": the system pins no more host memory.
  void (*short_of_host_memory)(std::size_t bytes, const char* reason, const char* remedy) = nullptr;
};

struct DeviceFailure {
  // kNoDriver, kNoDevice: this machine has no GPU, so "auto" selects the host.
  enum class Kind : int { kNoDriver, kNoDevice, kOther };
  Kind kind = Kind::kOther;
  char reason[400] = {};
  char remedy[400] = {};
};

// The driver's facts about a GPU.
struct GpuFacts {
  char name[256] = {};
  int capability = 0;  // 90 for 9.0
  bool has_memory = false;
  std::size_t free_bytes = 0, total_bytes = 0;
};
struct GpuList {
  static constexpr int kMost = 64;
  int version = kDeviceVersion;
  bool looks_at_memory = false;  // whether to query memory, which takes a moment and some memory on each GPU
  int only = -1;                 // the GPU whose memory is queried; -1: all
  int driver = 0;                // newest CUDA version that the driver supports: 13000 for 13.0; 0: no driver
  int num_gpus = 0;
  GpuFacts gpus[kMost];
};

using FindGpus = bool (*)(GpuList* list, DeviceFailure* failure);
using OpenDevice = Device* (*)(const DeviceRequest* request, DeviceFailure* failure);

}  // namespace zero
