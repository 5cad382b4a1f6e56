// open_device(): the device that a name stands for: "auto", "cpu", "cuda" or "cuda:1".
//
//   const std::unique_ptr<Device> device = open_device("auto");      // the first GPU, or main memory where there is none
//   device->name()                                                   // "cuda:0" or "host"
//
// A GPU's code is a plug-in, libzero_device_cuda.so, which is opened when a GPU is asked for, and stays. "auto" is main memory
// where there is no plug-in, no driver or no GPU; a GPU that is there and cannot be used is an error. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/device/device.h"

namespace zero {

// The path of the plug-in; "" if it is not there.
std::string cuda_plugin();

// Throws ConfigError under "run.device": for an unknown name, and where the GPU cannot be used: no plug-in, no driver, a
// driver that is too old, no such GPU, no room on it.
std::unique_ptr<Device> open_device(std::string_view name, const std::string& plugin = cuda_plugin());

// The GPUs of this machine, as their driver tells of them.
struct Gpu {
  std::string name;    // "NVIDIA H100 80GB HBM3"
  int capability = 0;  // 90 for 9.0
  // -1: not asked for, or the GPU does not say.
  std::int64_t free_bytes = -1, total_bytes = -1;
};
struct GpusHere {
  std::vector<Gpu> gpus;  // empty: there is none to be used
  std::string driver;     // "13.0", the newest CUDA that it knows; empty: no driver, or no plug-in that could ask
  // Where there are none: why, and what to do. `none_here`: "auto" is then the CPU; else something is there and broken.
  bool none_here = false;
  std::string reason, remedy;
};
// Throws nothing. With `memory` each GPU is used for a moment, which takes some of its memory.
GpusHere find_gpus(bool memory, const std::string& plugin = cuda_plugin());

// What the driver calls the GPU "cuda:1"; empty: it is none.
std::string gpu_name(std::string_view device, const std::string& plugin = cuda_plugin());
// Bytes that nobody holds of a GPU's memory, now; nothing for a device without a memory of its own, or where the driver does
// not say.
std::optional<std::int64_t> free_bytes_of(const Device& device, const std::string& plugin = cuda_plugin());

// The device of one rank of a machine, by a name that open_device() takes: with "cuda", and with "auto" where there are
// GPUs, each rank has one of its own, in turn. Nothing is opened. Throws as open_device() does, for no plug-in, driver or such GPU.
std::string device_of_rank(std::string_view name, int local_rank, const GpusHere& here);

}  // namespace zero
