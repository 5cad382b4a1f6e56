// FakeNccl: a libnccl.so.2 of tests, between threads of one process and the host's memory, and how it is made to fail.
//
//   FakeNccl* const nccl = fake_nccl();           // loads it first, so that it is the one that the plug-in opens
//   nccl->version = 20700;
//
// A cudaStream_t is a FakeStream (tests/comm/transport/fake_gpu.h): work begins when the device comes to it, and is done when all ranks of it
// have begun. As in NCCL with blocking = 0, a communicator is in progress until all its ranks have come.
#pragma once

#include <atomic>

namespace zero {

struct FakeNccl {
  std::atomic<int> version{22809};
  std::atomic<bool> duplicate_gpu{false};  // a communicator is refused as that of two ranks on one GPU
  std::atomic<int> absent{-1};             // this rank's communicator never comes
  std::atomic<bool> stuck{false};          // what begins from now on is never done
  std::atomic<int> failing{-1};            // this rank's communicator fails with ncclRemoteError
  std::atomic<bool> busy{false};           // what is asked for is in progress, and stays so
  std::atomic<int> num_comms{0};           // that are open
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
