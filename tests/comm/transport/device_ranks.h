// Ranks with a FakeGpu each and the fake NCCL between them. Each rank is a thread. Their calls use a transport of the
// host.
//
//   const auto ends = ends_of_device_ranks(2, [](DeviceRank& rank) { rank.comm.barrier({}).wait(); });
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/comm/device/device_communicator.h"
#include "zero/comm/group.h"
#include "zero/comm/transport/open_device_link.h"

#include "tests/comm/transport/fake_gpu.h"
#include "tests/comm/transport/fake_nccl/fake_nccl.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/forwarded_communicator.h"

namespace zero {

// Loads the fake libnccl.so.2 before the plug-in asks for that name, and resets its failures. Null: there is no such
// file.
inline FakeNccl* fake_nccl() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* const library = dlopen((folder / "fake_nccl/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto state = library != nullptr ? reinterpret_cast<FakeNcclState>(dlsym(library, "fake_nccl_state")) : nullptr;
  if (state == nullptr) return nullptr;
  state()->reset();
  return state();
}

// A group of all ranks that only a DeviceCommunicator uses.
inline std::unique_ptr<Communicator> open_units(Communicator& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return open_group(world, ranks, "units");
}

// A group whose timeout a test sets after all ranks have opened their links, which takes long on a busy machine.
class Units final : public ForwardedCommunicator {
 public:
  explicit Units(std::unique_ptr<Communicator> group)
      : ForwardedCommunicator(*group), group_(std::move(group)), limit(group_->timeout()) {}
  std::chrono::milliseconds timeout() const override { return limit; }
  GroupOpener* groups() override { return group_->groups(); }
  Arrivals* arrivals() override { return group_->arrivals(); }

 private:
  std::unique_ptr<Communicator> group_;

 public:
  std::chrono::milliseconds limit;
};

struct DeviceRank {
  explicit DeviceRank(Communicator& run, const DeviceCommunicator::Options& options = {})
      : world(run),
        gpu(fmt::format("0000:0{}:00.0", run.rank() + 1)),
        units(open_units(run)),
        comm(units, gpu, open_device_link(units, gpu), options) {}

  Communicator& world;
  FakeGpu gpu;
  Units units;
  DeviceCommunicator comm;
};

inline std::vector<std::string> ends_of_device_ranks(int world, const std::function<void(DeviceRank&)>& body,
                                                     std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                                     const DeviceCommunicator::Options& options = {}) {
  return ends_of_ranks(
      world,
      [&](Communicator& run) {
        DeviceRank rank(run, options);
        body(rank);
      },
      timeout);
}

}  // namespace zero
