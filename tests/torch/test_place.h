// place(): the device of a test's models: the CPU, or with ZERO_TEST_DEVICE=cuda the first GPU.
//
//   net->to(tests::place());                                        // before all other uses of libtorch
//   thread_local const BackwardOnCaller one_thread(tests::place());  // in a loss: a rank is a thread
#pragma once

#include <cstdlib>

#include "zero/torch/seam/torch_device.h"

namespace zero::tests {

inline c10::Device place() {
  static const c10::Device found = [] {
    const char* const name = std::getenv("ZERO_TEST_DEVICE");
    if (name == nullptr) return c10::Device(c10::DeviceType::CPU);
    open_torch_cuda(name);
    return c10::Device(c10::DeviceType::CUDA, 0);
  }();
  return found;
}

}  // namespace zero::tests
