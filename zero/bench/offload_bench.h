// What the two files of `zero bench offload` share: its options, and the measurement with weights and gradients on a device.
// Local.
#pragma once

#include <string>

#include "zero/bench/disk_probe.h"
#include "zero/bench/measurement.h"
#include "zero/bench/moment_step.h"

namespace zero::cli {

constexpr int kProbeDepth = 32;  // requests of the disk's probe that are in flight

struct OffloadBenchOptions {
  MomentStepOptions step;
  int rounds = 5;
  std::string device;  // empty: main memory, and no copies
  bool json = false;
};

// Prints what was measured. Returns the exit status. Throws ConfigError under "run.device" where the device cannot be used, and
// where memory is short.
int bench_offload_on_device(const OffloadBenchOptions& options);

}  // namespace zero::cli
