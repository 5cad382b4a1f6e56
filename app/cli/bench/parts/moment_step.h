// MomentStep: an AdamW step over one matrix by the engine's updater, with moments on a chosen tier.
//
//   MomentStep step({.mib = 256, .folders = {"."}}, Tier::kDisk);            // all else in main memory
//   step.run();                                                              // reads, updates, writes back
//   MomentStep offloaded({.mib = 256}, Tier::kHost, &device);                // weights and gradients on the device
//
// `zero bench offload` measures it. With a device, the host updates: gradients and weights are copied from the device,
// and weights back, tile by tile over the engine's link. If main memory is the device (HostDevice), these copies are
// memcpy. Local. Throws ConfigError if memory is short, and IoError if the disk fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/engine/update/updater.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/memory/link/link.h"
#include "zero/plan/units/param_spec.h"

namespace zero::cli {

struct MomentStepOptions {
  std::int64_t mib = 256;  // size of each moment, of the weights and of the gradients
  std::vector<std::string> folders{"."};
  int depth = OffloadTiers::kDefaultDepth;
  int threads = 1;
};

class MomentStep {
 public:
  // `device` outlives this object. Null: main memory holds everything, and nothing is copied to or from a device.
  MomentStep(const MomentStepOptions& options, Tier moments, Device* device = nullptr);
  ~MomentStep();

  void run();
  std::string describe_disk() const { return disk_->describe(); }

 private:
  void fill_gradient();

  Device& device_;
  Ledger ledger_;
  std::unique_ptr<Communicator> comm_, staged_;  // staged_: for device memory
  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<ShardedState> state_;
  std::unique_ptr<Updater> updater_;
};

}  // namespace zero::cli
