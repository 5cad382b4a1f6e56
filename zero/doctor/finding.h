// Finding: one line of `zero doctor`. A check looks at one thing, takes no more than a second, changes nothing, and
// never throws.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "zero/device/open_device.h"

namespace zero::cli {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  std::string subject;  // "memory"
  Health health = Health::kOk;
  std::string found;   // "15.6 GiB, 12.1 GiB free"
  std::string remedy;  // what to do; empty when all is well
};

// Processor, cores, memory, limits and kernel. `root` is where /proc and /sys are looked for: "/" but in tests.
std::vector<Finding> check_machine(const std::filesystem::path& root = "/");

// io_uring, the disk tier and the speed of durable writes in the current folder.
std::vector<Finding> check_storage();

// libtorch, libzero, the GPU, and the transports.
std::vector<Finding> check_software();

// What a run with run.device = "auto" finds of GPUs: `here`, and whether libtorch can use them ("" or why not).
Finding gpu_finding(const GpusHere& here, const std::string& why_no_torch);

}  // namespace zero::cli
