// RunDevices: the devices of a run's ranks on this machine. It prepares libtorch for them.
//
//   const RunDevices devices(loaded);           // before any other use of libtorch, which asks for GPUs only once
//   job.device = devices.of_rank(local_rank);
//
// It opens no GPU, and does nothing with run.device cpu. Local. Throws ConfigError if open_device() would refuse the
// device, if libtorch has no CUDA, and for keys that do not work on a GPU yet (app/config/rules/device_rules.h).
#pragma once

#include <string>

#include "zero/device/open_device.h"

#include "app/config/options/config.h"

namespace zero::cli {

class RunDevices {
 public:
  explicit RunDevices(const LoadedConfig& loaded);

  bool on_gpu() const { return on_gpu_; }
  std::string of_rank(int local_rank) const;

 private:
  std::string name_;
  GpusHere here_;
  bool on_gpu_ = false;
};

}  // namespace zero::cli
