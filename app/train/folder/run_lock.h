// RunLock: at most one process of this machine trains into a run folder.
//
//   RunLock lock("runs/shakespeare");     // rank 0, before it looks what is there; held until destroyed
//
// A name of the kernel's (an abstract socket) made of the folder's real path: nothing lies in the folder, and a process
// that ends in whatever way has given it back. Waits `patience` for the ranks of a run that was just killed, with a
// `pause` between two tries. Local.
// Throws ConfigError under "run.dir" where another run goes on, IoError when the kernel refuses. Other machines are not
// seen.
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
