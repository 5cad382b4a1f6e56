// place_of(), adopt_stream(), open_torch_cuda(): a run's device in libtorch: its name, stream, numerics and library.
//
//   open_torch_cuda("cuda");                        // before any other use of libtorch: it looks for GPUs only once
//   set_gpu_numerics({.tf32 = true});
//   at::empty({n}, at::TensorOptions().device(place_of(device)));
//   adopt_stream(device);                           // before the model computes, on its thread
//   share_memory(device);                           // before an engine allocates memory of the device
//   const BackwardOnCaller one_thread(place_of(device));
//
// Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "zero/device/device.h"

namespace zero {

// Returns cuda:N for a device of that name, otherwise the CPU.
c10::Device place_of(const Device& device);

// Makes the lane kCompute the stream that this thread uses on the device, and makes this thread use that GPU. Returns
// the stream. No-op on the CPU; nothing is returned.
std::optional<c10::Stream> adopt_stream(Device& device);

// Throws ConfigError if this thread uses another stream than the adopted stream. The engine's lanes wait only for that
// stream, so operators in another stream would read parameters too early.
void require_stream(const std::optional<c10::Stream>& adopted);

// Makes libtorch give back all GPU memory that no tensor uses: now, and whenever an allocation of `device` finds no
// room. Otherwise libtorch keeps freed memory for its next operators. No-op on the CPU.
void share_memory(Device& device);

// Opens libtorch's code for GPUs (libtorch_cuda.so beside libtorch_cpu.so) for the life of the process. Neither
// libtorch nor zero.cpp links it. Returns "", or why it cannot be opened: a wheel of torch without CUDA, or missing
// CUDA libraries.
std::string try_torch_cuda();
// Calls try_torch_cuda(). If it fails, throws ConfigError with `device`, the value of run.device.
void open_torch_cuda(std::string_view device);

struct GpuNumerics {
  bool tf32 = false;           // for products of fp32 matrices; if false, all 24 bits of each factor count
  bool deterministic = false;  // an operator without a deterministic form throws a c10::Error with its name
};
// Sets the numerics of this process. Call it before the first matrix product.
void set_gpu_numerics(const GpuNumerics& numerics);

// Runs backward passes of this thread on this thread while it lives, if `place` is a GPU. By default libtorch runs all
// passes of a GPU in one thread of its own. If ranks are threads, a rank that waits there would block the rank for
// which it waits. attach() does not use it: its caller does.
class BackwardOnCaller {
 public:
  explicit BackwardOnCaller(c10::Device place);
  BackwardOnCaller(const BackwardOnCaller&) = delete;
  BackwardOnCaller& operator=(const BackwardOnCaller&) = delete;
  ~BackwardOnCaller();

 private:
  bool before_;
};

// Returns the bytes of a GPU that libtorch's allocator has taken for activations and other needs of operators; 0 on the
// CPU.
std::int64_t held_by_torch(c10::Device place);

}  // namespace zero
