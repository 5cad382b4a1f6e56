// EngineHost: what the program around an engine gives it: the device, its link, rates and memory. EngineSeams: parts of
// the machine that tests replace.
//
//   RankEngine engine(comm, specs, units, options, observer, {.rates = rates});
//   auto attached = attach(model, world, options, {.seams = {.disk_seam = &faulty}});      // zero/torch/attach_host.h
//
// A user's program needs neither. Values only. Local.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "zero/comm/device_link.h"
#include "zero/memory/memory_watch.h"
#include "zero/plan/model/step_model.h"

namespace zero {

class Communicator;
class Device;
struct DiskSeam;
class LinkClock;

struct EngineSeams {
  // Seam between the disk and the kernel, for the engine and its probes; must outlive them. Null: none.
  const DiskSeam* disk_seam = nullptr;
  // Clock of the link; must outlive the engine. Null: the machine's.
  const LinkClock* link_clock = nullptr;
  // Reader of this machine's free memory; one thread at a time calls it. Empty: read_memory().
  MemoryWatch::Source read_memory{};
};

struct EngineHost {
  int local_world = 1;             // ranks that share this machine's memory
  bool updated_elsewhere = false;  // other ranks hold and update the optimizer states
  bool has_section = false;        // the parameters are one section of a pipeline's model
  // Bytes of a rank's offloaded activations: on the host if host_memory is kAuto. On the device: blocks in transfer.
  PerTier<std::int64_t> activation_bytes{};
  // Rates of this machine for a rank, if known. Without update_numel they are probed if a choice needs them, or, with
  // `probes`, always.
  TierRates rates{};
  bool probes = false;
  // Profile of the model, if known before it runs. Otherwise states are first placed as if the model computed nothing,
  // and placed again after a few steps.
  StepProfile profile{};
  // Device with the memory of units in use; must outlive the engine. Null: main memory (HostDevice).
  Device* device = nullptr;
  // Free bytes of a device's own memory, and the ranks that share it. Empty: its memory is main memory.
  std::function<std::int64_t()> free_device_bytes{};
  // For a plan: the device has its own memory, and neither that memory nor its host's can be measured here.
  bool device_is_elsewhere = false;
  int ranks_on_device = 1;
  // Bytes of the device that this rank's operators took in earlier training; 0: unknown.
  std::int64_t beside_on_device = 0;
  // Collective. Opens the link between these ranks' devices (zero/comm/transport/open_device_link.h). Empty: through
  // the host.
  std::function<std::unique_ptr<DeviceLink>(Communicator& units, Device& device)> open_link{};
  EngineSeams seams{};
};

}  // namespace zero
