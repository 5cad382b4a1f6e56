// OffloadBenchOptions: the options that both files of `zero bench offload` share.
//
//   return bench_offload_on_device({.step = {.mib = 256}, .device = "cuda"});
//
// Local.
#pragma once

#include <string>

#include "app/cli/bench/measurement.h"
#include "app/cli/bench/parts/disk_probe.h"
#include "app/cli/bench/parts/moment_step.h"

namespace zero::cli {

constexpr int kProbeDepth = 32;  // requests in flight of the disk's probe

struct OffloadBenchOptions {
  MomentStepOptions step;
  int rounds = 5;
  std::string device;  // empty: everything in main memory, without copies
  bool json = false;
};

// Measures with weights and gradients on a device, and prints the result. Returns the exit status. Throws ConfigError,
// with key "run.device" if the device cannot be used, and also if memory is short.
int bench_offload_on_device(const OffloadBenchOptions& options);

}  // namespace zero::cli
