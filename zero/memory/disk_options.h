// DiskOptions: the folders of a disk tier, and how it moves bytes. Values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

class Timeline;

// How requests reach the kernel. kAuto: io_uring where it is allowed, else threads.
enum class DiskEngine : std::uint8_t { kAuto, kUring, kThreads };

struct DiskOptions {
  std::vector<std::string> paths;  // folders on the disks to use; one file in each
  std::int64_t bytes = 0;          // in all; preallocated over the paths
  DiskEngine engine = DiskEngine::kAuto;
  int queue_depth = 128;  // requests in flight: more than the tiles that an engine has under way
  bool checksums = false;
  // A request without an answer for so long ends the run, with the path, the operation and the bytes. The tier takes no
  // further ones; memory of the unanswered must not be used again (io_queue.h).
  std::chrono::milliseconds timeout{60000};
  Timeline* timeline = nullptr;  // gets requests and waits; outlives the tier
};

}  // namespace zero
