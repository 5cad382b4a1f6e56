// open_device(): opens the device with this name: "auto", "cpu", "cuda" or "cuda:1".
//
//   const std::unique_ptr<Device> device = open_device("auto");      // the first GPU, or main memory if there is none
//   device->name()                                                   // "cuda:0" or "host"
//
// GPU code is in a plug-in, libzero_device_cuda.so, which is loaded when a GPU is asked for, and stays loaded. "auto"
// is main memory if there is no plug-in, driver or GPU; a GPU that exists but cannot be used is an error. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/device/device.h"

namespace zero {

// Returns the path of the plug-in; "" if it is missing.
std::string cuda_plugin();

// Opens the device. Throws ConfigError under "run.device" for an unknown name or an unusable GPU. Reasons: no plug-in,
// no driver, driver too old, no such GPU, no memory on it.
std::unique_ptr<Device> open_device(std::string_view name, const std::string& plugin = cuda_plugin());

// A GPU of this machine, as the driver describes it.
struct Gpu {
  std::string name;    // "NVIDIA H100 80GB HBM3"
  int capability = 0;  // 90 for 9.0
  // -1: not queried, or unknown to the driver.
  std::int64_t free_bytes = -1, total_bytes = -1;
};
struct GpusHere {
  std::vector<Gpu> gpus;  // empty: no usable GPU
  std::string driver;     // "13.0", the newest CUDA version it supports; empty: no driver, or no plug-in to ask it
  // Without GPUs: the reason and the remedy. `none_here`: "auto" selects the CPU; otherwise a GPU exists but is broken.
  bool none_here = false;
  std::string reason, remedy;
};
// Finds this machine's GPUs; does not throw. With `memory` each GPU is used for a moment, which takes some of its
// memory.
GpusHere find_gpus(bool memory, const std::string& plugin = cuda_plugin());

// Returns the driver's name of the GPU "cuda:1"; empty if `device` is no GPU.
std::string gpu_name(std::string_view device, const std::string& plugin = cuda_plugin());
// Returns the free bytes of a GPU's memory now; nothing for a device without its own memory, or if the driver does not
// tell.
std::optional<std::int64_t> free_bytes_of(const Device& device, const std::string& plugin = cuda_plugin());

// Returns the device of one rank of a machine, from a name for open_device(). With "cuda", and with "auto" if there are
// GPUs, ranks take the GPUs in turn. Opens nothing. Throws as open_device() does for a missing plug-in, driver or GPU.
std::string device_of_rank(std::string_view name, int local_rank, const GpusHere& here);

}  // namespace zero
