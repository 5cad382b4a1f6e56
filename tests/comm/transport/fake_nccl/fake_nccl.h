// FakeNccl: a libnccl.so.2 for tests, between threads of one process and in the host's memory. Tests can make it fail.
//
//   FakeNccl* const nccl = fake_nccl();           // loads it first, so the plug-in opens this one
//   nccl->version = 20700;
//
// A cudaStream_t is a FakeStream (tests/comm/transport/fake_gpu.h). Work begins when its stream reaches it, and is done
// when all its ranks have begun it. As in NCCL with blocking = 0, a communicator is in progress until all its ranks
// have joined.
#pragma once

#include <atomic>

namespace zero {

struct FakeNccl {
  std::atomic<int> version{22809};
  std::atomic<bool> duplicate_gpu{false};  // a communicator is refused, as if two ranks were on one GPU
  std::atomic<int> absent{-1};             // this rank's communicator never joins
  std::atomic<bool> stuck{false};          // work that begins from now on never ends
  std::atomic<int> failing{-1};            // this rank's communicator fails with ncclRemoteError
  std::atomic<bool> busy{false};           // every call is in progress, without end
  std::atomic<int> num_comms{0};           // open communicators
  std::atomic<int> num_aborted{0};

  void reset() {
    version = 22809;
    duplicate_gpu = stuck = busy = false;
    absent = failing = -1;
    num_aborted = 0;
  }
};

using FakeNcclState = FakeNccl* (*)();  // under the name "fake_nccl_state"

}  // namespace zero
