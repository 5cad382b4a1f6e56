// FakeCuda: what tests see of the fake libcudart.so.13, and how they make its functions fail.
//
//   FAKE_CUDA_FAIL="cudaMalloc=2,cudaEventRecord=700"       in the environment: errors by function
//   FAKE_CUDA_DRIVER=12080  FAKE_CUDA_DEVICES=0  FAKE_CUDA_CAPABILITY=75  FAKE_CUDA_FREE=BYTES
//
// Device memory is memory of the host, and work is done when it is queued, but for kernels: of these the name is kept. Each
// record of an event comes a millisecond after the one before.
#pragma once

namespace zero {

struct FakeCuda {
  int num_memories = 0;  // of the device, not given back yet
  int num_pinned = 0;
  int num_streams = 0;
  int num_events = 0;   // made and not destroyed
  int num_records = 0;  // of events, in all
  int num_waits = 0;    // of streams for events, in all
  int num_launches = 0;
  int num_ready_after = 0;  // how often cudaEventQuery() says "not ready" before it says yes
  char last_kernel[400] = {};
  bool asked_with_signals = false;  // a thread that the driver made when it was first asked would take them
};

using FakeCudaState = FakeCuda* (*)();  // under the name "fake_cuda_state"

}  // namespace zero
