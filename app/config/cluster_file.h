// Cluster file: the machines and links of a cluster, for `zero plan CONFIG --cluster FILE`; one section of TOML.
//
//   [cluster]
//   hosts = 4
//   ranks = 8                # of a machine
//   network = "1.25GB"       # bytes a second that leave a machine, and as many that come; its ranks share them
//   within = "20GB"          # bytes a second that a rank sends to ranks of its own machine; absent: not counted
//   latency_us = 20          # microseconds of a message between machines; absent: 0
//   memory = "80GiB"         # of a rank, for training; absent: whatever it takes
//   flops = 1e14             # of a rank a second, in matrix products; absent: those of this machine
//   speeds = [1, 1, 0.5]     # of the ranks of each machine, beside that; absent: all 1
//   jitter = 0.1             # of its computation, by which a rank takes longer now and then, in the mean; absent: 0
//
// Local. Throws ConfigError with file, line and key: what is missing, unknown, or no such value.
#pragma once

#include <filesystem>
#include <string_view>

#include "zero/plan/cluster/cluster.h"

namespace zero {

Cluster read_cluster(const std::filesystem::path& path);
// `file` is only the name that messages use.
Cluster parse_cluster(std::string_view text, std::string_view file);

}  // namespace zero
