// FakeCuda: the state of the fake libcudart.so.13 for tests. Variables of the environment make its functions fail:
//
//   FAKE_CUDA_FAIL="cudaMalloc=2,cudaEventRecord=700"       errors by function
//   FAKE_CUDA_DRIVER=12080  FAKE_CUDA_DEVICES=0  FAKE_CUDA_CAPABILITY=75  FAKE_CUDA_FREE=BYTES
//
// Device memory is host memory, and work is done when it is queued. Kernels do not run; only their names are kept. Each
// record of an event is a millisecond later than the previous record.
#pragma once

namespace zero {

struct FakeCuda {
  int num_memories = 0;  // device allocations that are not freed yet
  int num_pinned = 0;
  int num_streams = 0;
  int num_events = 0;   // created and not destroyed
  int num_records = 0;  // records of all events
  int num_waits = 0;    // waits of streams for events
  int num_launches = 0;
  int num_ready_after = 0;  // answers "not ready" of cudaEventQuery() before it says yes
  char last_kernel[400] = {};
  bool asked_with_signals = false;  // signals were unblocked in the first call of the driver
};

using FakeCudaState = FakeCuda* (*)();  // under the name "fake_cuda_state"

}  // namespace zero
