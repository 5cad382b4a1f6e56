// The device of a run, as libtorch knows it: its name there, its stream, its numbers, and its library.
//
//   open_torch_cuda("cuda");                        // before anything else of libtorch: it asks for GPUs only once
//   set_gpu_numerics({.tf32 = true});
//   at::empty({n}, at::TensorOptions().device(place_of(device)));
//   adopt_stream(device);                           // before the model computes, on its thread
//   share_memory(device);                           // before an engine takes memory of it
//   const BackwardOnCaller one_thread(place_of(device));
//
// Local.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>

#include "zero/device/device.h"

namespace zero {

// cuda:N for a device of that name; else the CPU.
c10::Device place_of(const Device& device);

// From now on the lane kCompute is the stream that this thread uses on the device, and this thread uses that GPU. No-op
// on the CPU.
void adopt_stream(Device& device);

// libtorch keeps freed memory of a GPU for its next operators. Now, and whenever an allocation of `device` finds no room, it gives
// back all that no tensor uses. No-op on the CPU.
void share_memory(Device& device);

// Opens libtorch's code for GPUs, libtorch_cuda.so beside libtorch_cpu.so, for the life of the process: libtorch links it no
// more than we do. "" or why that cannot be: a wheel of torch without CUDA, or libraries of CUDA that are not there.
std::string try_torch_cuda();
// The same for `device`, the value of run.device. Throws ConfigError.
void open_torch_cuda(std::string_view device);

struct GpuNumerics {
  bool tf32 = false;           // of products of fp32 matrices; else all 24 bits of each factor count
  bool deterministic = false;  // an operator that has no such form throws a c10::Error with its name
};
// Of this process, before its first product of matrices.
void set_gpu_numerics(const GpuNumerics& numerics);

// Backward passes of this thread run on it while it lives, where `place` is a GPU: libtorch would else run all of a GPU in one
// thread of its own, in which a rank that waits for another would keep that other from its turn. attach() leaves this to
// its caller.
class BackwardOnCaller {
 public:
  explicit BackwardOnCaller(c10::Device place);
  BackwardOnCaller(const BackwardOnCaller&) = delete;
  BackwardOnCaller& operator=(const BackwardOnCaller&) = delete;
  ~BackwardOnCaller();

 private:
  bool before_;
};

// The bytes that libtorch's allocator has taken of a GPU, for activations and whatever else operators need; 0 on the CPU.
std::int64_t held_by_torch(c10::Device place);

}  // namespace zero
