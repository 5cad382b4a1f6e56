// Cluster file: the machines and links of a cluster, for `zero plan CONFIG --cluster FILE`; one section of TOML.
//
//   [cluster]
//   hosts = 4
//   ranks = 8                # per machine
//   network = "1.25GB"       # bytes a second that leave a machine, and that enter it; its ranks share them
//   within = "20GB"          # bytes a second that a rank sends to ranks of its own machine; absent: not counted
//   latency_us = 20          # microseconds of a message between machines; absent: 0
//   memory = "80GiB"         # of a rank, for training; absent: no limit
//   flops = 1e14             # flops per second of a rank, in matrix products; absent: measured on this machine
//   speeds = [1, 1, 0.5]     # speed of each machine's ranks, relative to `flops`; absent: all 1
//   jitter = 0.1             # mean of a rank's random extra compute time, as a fraction of its computation; absent: 0
//
// Local. Throws ConfigError with file, line and key if a key is missing or unknown, or if its value is not allowed.
#pragma once

#include <filesystem>
#include <string_view>

#include "zero/plan/cluster/cluster.h"

namespace zero {

Cluster read_cluster(const std::filesystem::path& path);
// Reads a cluster from TOML text. `file` is the name for messages.
Cluster parse_cluster(std::string_view text, std::string_view file);

}  // namespace zero
