// What activations on the host or on disk are told and say: options, needs, and the report. Values only. Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/base/tier.h"
#include "zero/memory/traffic.h"

namespace zero {

struct ActivationOffloadOptions {
  Tier tier = Tier::kHost;           // kHost or kDisk
  std::vector<std::string> disk;     // folders, one a disk; for kDisk
  bool checksums = false;            // bytes that return from disk are verified
  double link_bytes_per_second = 0;  // of a link (`zero.link_bandwidth`); 0: there is none
  bool from_device = false;          // they lie on a device that the host cannot read: see activation_offload_need()
  std::int64_t most_bytes = 0;       // that offloaded activations may take on their tier; 0: no limit
  std::int64_t expected_bytes = 0;   // that they will take there, if that is known: open() makes room for them on disk
};

// Most bytes that offloading takes on each tier when `count` activations of `bytes` each are offloaded at once, with
// blocks.
struct ActivationOffloadNeed {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t disk = 0;
};
ActivationOffloadNeed activation_offload_need(const ActivationOffloadOptions& options, std::int64_t count,
                                              std::int64_t bytes);

struct ActivationOffloadReport {
  std::int64_t bytes = 0;       // offloaded now
  std::int64_t peak_bytes = 0;  // at most
  DiskTraffic disk;             // since the beginning
  LinkTraffic link;
  std::string disk_kind;  // "io_uring, O_DIRECT, 1 path"; empty: no disk is used
};

}  // namespace zero
