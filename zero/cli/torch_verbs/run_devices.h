// RunDevices: the devices of a run's ranks on this machine, and libtorch made ready for them.
//
//   const RunDevices devices(loaded);           // before anything else of libtorch: it asks for GPUs only once
//   job.device = devices.of_rank(local_rank);
//   job.ranks_on_device = devices.sharers(world.local_size());
//
// No GPU is opened. With run.device cpu nothing is done. Throws ConfigError: what open_device() refuses, a libtorch without
// CUDA, and what does not work on a GPU yet (zero/config/device_rules.h). Local.
#pragma once

#include <string>

#include "zero/config/config.h"
#include "zero/device/open_device.h"

namespace zero::cli {

class RunDevices {
 public:
  explicit RunDevices(const LoadedConfig& loaded);

  bool on_gpu() const { return on_gpu_; }
  std::string of_rank(int local_rank) const;
  // Ranks that share a GPU's memory, of those of this machine. Where GPUs do not divide them: the most.
  int sharers(int local_ranks) const;

 private:
  std::string name_;
  GpusHere here_;
  bool on_gpu_ = false;
};

}  // namespace zero::cli
