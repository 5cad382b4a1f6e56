// probe_rates(): measures the rates of StepModel on this machine, for one rank, in a fraction of a second.
//
//   TierRates rates = probe_rates(&comm, offload, rule, threads, disk_bytes);
//
// All ranks measure at once, as in a step; the slowest rank's rates count. Without a communicator: a single process.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/plan/model/step_model.h"

namespace zero {

struct DiskSeam;

// Collective. Probes the update rule in main memory and, if folders are named and are here, the disk: each direction,
// and both at once. It uses 64 MiB, or `disk_bytes`, or this rank's part of half of the free bytes there, whichever is
// least; it skips the disk below 8 MiB. The disk's share is from 0.5 to 1, and 1 without a probed disk. Link rates are
// the options'. Throws ConfigError and IoError as DiskTier does. `seam`: a test's, between the disk and the kernel.
TierRates probe_rates(Communicator* comm, const OffloadOptions& offload, const UpdateRule& rule, int threads,
                      std::int64_t disk_bytes, const DiskSeam* seam = nullptr);

// Returns the least value of all ranks; `value` itself without a communicator.
std::int64_t agreed_least(Communicator* comm, std::int64_t value);

}  // namespace zero
