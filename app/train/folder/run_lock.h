// RunLock: ensures that at most one process of this machine trains into a run folder.
//
//   RunLock lock("runs/shakespeare");     // rank 0, before it reads the folder; held until destroyed
//
// The lock is a name in the kernel (an abstract socket), computed from the folder's real path. It leaves no file in the
// folder, and the kernel releases it however the process ends. The constructor waits up to `patience` for the ranks of
// a run that was just killed, with a `pause` between two tries. Local. Throws ConfigError under "run.dir" if another
// run is active there, IoError if the kernel refuses. Runs on other machines are not noticed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "zero/base/files/file.h"

namespace zero {

class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder, std::chrono::milliseconds patience = std::chrono::seconds(5),
                   const std::function<void()>& pause = pause_20_ms);

 private:
  static void pause_20_ms();

  FileDescriptor socket_;
};

}  // namespace zero
