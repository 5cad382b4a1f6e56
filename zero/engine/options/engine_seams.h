// EngineSeams: what a test puts in an engine's way, and what a runner such as `zero train` knows better than the engine.
// A user's program has no need of it.
//
//   Engine engine(comm, specs, units, options, observer, {.rates = rates});
//   auto attached = attach(model, world, options, {.disk_seam = &faulty});      // zero/torch/attach_seams.h
//
// Values only. Local.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "zero/comm/device_link.h"
#include "zero/memory/memory_monitor.h"
#include "zero/plan/model/step_model.h"

namespace zero {

class Communicator;
class Device;
struct DiskSeam;
class LinkClock;

struct EngineSeams {
  std::int64_t activation_bytes = 0;         // of a rank's activations on the host, where host_memory is kAuto
  std::int64_t device_activation_bytes = 0;  // of its blocks for activations on their way from the device and back
  // What this machine gives a rank, where that is known from before; without update_numel it is probed, where it is
  // needed for a choice or, with `probes`, always.
  TierRates rates{};
  bool probes = false;
  // What the model computes, where that is known before it runs. Else states are placed as if it were nothing, and once
  // more when a few steps have shown it.
  StepProfile profile{};
  // What stands between the disk and the kernel, of the engine and of its probes; outlives them. Null: nothing.
  const DiskSeam* disk_seam = nullptr;
  // Where units lie while operators use them; outlives the engine. Null: main memory (HostDevice).
  Device* device = nullptr;
  // Bytes that are free of a device's own memory, and the ranks that share it. Empty: its memory is main memory.
  std::function<std::int64_t()> free_device_bytes{};
  // Of a plan: the device has memory of its own, and neither that nor its host's is at hand to be measured.
  bool device_is_elsewhere = false;
  int ranks_on_device = 1;
  // Of it, bytes that this rank's operators were found to take while the model trained; 0: not known.
  std::int64_t beside_on_device = 0;
  // Collective: how the devices of these ranks exchange bytes (zero/comm/transport/open_device_link.h). Empty: through the host.
  std::function<std::unique_ptr<DeviceLink>(Communicator& units, Device& device)> open_link{};
  // The time on the link; outlives the engine. Null: the machine's.
  const LinkClock* link_clock = nullptr;
  // The memory that is free on this machine; called by one thread at a time. Empty: read_memory().
  MemoryMonitor::Source read_memory{};
};

}  // namespace zero
