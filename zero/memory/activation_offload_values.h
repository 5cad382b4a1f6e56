// ActivationOffloadOptions, ActivationOffloadReport: the options, needs and report of ActivationOffload. Values only.
// Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/base/numbers/tier.h"
#include "zero/memory/disk/traffic.h"

namespace zero {

struct ActivationOffloadOptions {
  Tier tier = Tier::kHost;           // below the device
  std::vector<std::string> disk;     // folders for kDisk, one per disk
  bool checksums = false;            // verify bytes that are read from disk
  double link_bytes_per_second = 0;  // bandwidth of a simulated link (`zero.link_bandwidth`); 0: no link
  bool from_device = false;     // activations are on a device that the host cannot read; see activation_offload_need()
  std::int64_t most_bytes = 0;  // limit of offloaded bytes on their tier; 0: no limit
  std::int64_t expected_bytes = 0;  // expected bytes there, if known: open() reserves them on disk
};

// Returns the most bytes on each tier, including blocks, while `count` activations of `bytes` bytes each are offloaded.
using ActivationOffloadNeed = PerTier<std::int64_t>;
ActivationOffloadNeed activation_offload_need(const ActivationOffloadOptions& options, std::int64_t count,
                                              std::int64_t bytes);

struct ActivationOffloadReport {
  std::int64_t bytes = 0;       // offloaded now
  std::int64_t peak_bytes = 0;  // maximum so far
  DiskTraffic disk;             // since the beginning
  LinkTraffic link;
  std::string disk_kind;  // "io_uring, O_DIRECT, 1 path"; empty: no disk
};

}  // namespace zero
