// probe_rates(): measures the rates of StepModel on this machine, for one rank, in a fraction of a second.
//
//   TierRates rates = probe_rates(&comm, offload, rule, threads, disk_bytes);
//
// All ranks measure at once, as in a step; the slowest rank's rates count. Without a communicator: one process alone.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/plan/model/step_model.h"

namespace zero {

struct DiskSeam;

// Collective. The update rule in main memory, and, where folders are named and here, the disk: 64 MiB each way and both
// ways at once, or `disk_bytes`, or this rank's part of half of what is free there, where that is less; nothing where 8
// MiB do not fit. `disk_share` is from 0.5 to 1, and 1 where no disk is probed. Link rates are the options'. Throws
// ConfigError and IoError as DiskTier does. `seam`: of a test, between the disk and the kernel.
TierRates probe_rates(Communicator* comm, const OffloadOptions& offload, const UpdateRule& rule, int threads,
                      std::int64_t disk_bytes, const DiskSeam* seam = nullptr);

// The least of every rank's; `value` itself without a communicator.
std::int64_t agreed_least(Communicator* comm, std::int64_t value);

}  // namespace zero
