// DiskOptions: the folders of a disk tier, and how it moves bytes. Values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

class Timeline;

// How requests reach the kernel. kAuto: io_uring if it is allowed, otherwise threads.
enum class DiskEngine : std::uint8_t { kAuto, kUring, kThreads };

struct DiskOptions {
  std::vector<std::string> paths;  // folders on the disks; one file in each
  std::int64_t bytes = 0;          // total size, preallocated over the paths
  DiskEngine engine = DiskEngine::kAuto;
  int queue_depth = 160;  // requests in flight: more than the tiles that an engine moves at once
  bool checksums = false;
  // Time limit of a request. A request that exceeds it ends the run, with path, operation and bytes. The tier then
  // refuses further requests, and memory of unanswered requests must not be reused (io_queue.h).
  std::chrono::milliseconds timeout{60000};
  Timeline* timeline = nullptr;  // records requests and waits; must outlive the tier
};

}  // namespace zero
