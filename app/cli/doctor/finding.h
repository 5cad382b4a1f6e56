// Finding: one line of `zero doctor`.
//
//   for (const Finding& finding : check_machine())
//     if (finding.health != Health::kOk) fmt::print("{}\n", finding.remedy);
//
// A check examines one thing, takes at most a second, changes nothing, and never throws. Local.
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
  std::string remedy;  // what the user can do; empty if nothing is wrong
};

// Checks processor, cores, memory, limits and kernel. `root` is the parent of /proc and /sys: "/" except in tests.
std::vector<Finding> check_machine(const std::filesystem::path& root = "/");

// Checks io_uring, the disk tier and the speed of durable writes in the current folder.
std::vector<Finding> check_storage();

// Checks libtorch, libzero.so, the GPU and the transports.
std::vector<Finding> check_software();

// Returns why the loaded libtorch at `library` (libtorch_cpu.so) has no code for GPUs; "" if it has, or if none is
// loaded.
std::string why_no_cuda_code(bool is_loaded, const std::filesystem::path& library);

// Describes the GPUs that a run with run.device = "auto" finds. `why_no_torch`: the reason why libtorch cannot use
// them; "" if it can.
Finding gpu_finding(const GpusHere& here, const std::string& why_no_torch);

}  // namespace zero::cli
