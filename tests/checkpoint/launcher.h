// Launcher: a launcher that keeps memory, in a thread of the test.
//
//   Launcher launcher;
//   InMemoryCheckpoints kept(launcher.connect(), "run");
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>

#include "zero/comm/launcher/launcher_memory.h"

#include "app/launch/held/memory_server.h"

namespace zero {

class Launcher {
 public:
  explicit Launcher(std::size_t most_names = MemoryFiles::kMostNames)
      : server_(most_names), thread_([this] { serve(); }) {}
  ~Launcher() {
    ends_ = true;
    thread_.join();
  }
  LauncherMemory connect() { return {UnixSocket(descriptor()), std::chrono::seconds(30)}; }
  // The descriptor that a rank finds through ZERO_LAUNCHER_MEMORY.
  FileDescriptor descriptor() {
    const std::scoped_lock lock(mutex_);
    return server_.connect();
  }
  // Ends all connections, as the end of the ranks does, and returns the kept names.
  std::vector<std::string> names() {
    const std::scoped_lock lock(mutex_);
    server_.disconnect();
    return server_.files().names();
  }
  int find(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return server_.files().find(name);
  }

 private:
  void serve() {
    while (!ends_) {
      pollfd wake{.fd = server_.fd(), .events = POLLIN, .revents = 0};
      poll(&wake, 1, 5);
      const std::scoped_lock lock(mutex_);
      server_.serve();
    }
  }
  std::mutex mutex_;
  MemoryServer server_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace zero
