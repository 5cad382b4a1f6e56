// MemoryMonitor: watches how much of this machine's memory other programs leave free.
//
// A step takes and frees activations, and other programs take memory at any time. So the free memory at the end of a
// step says little about the least there was. A thread therefore looks every few milliseconds, and keeps the worst it saw. On
// a busy machine that thread may not run in time: two looks are certain, those of look_now() and take_worst().
//
//   MemoryMonitor monitor(read_memory, std::chrono::milliseconds(20));
//   ...                                                      // a step
//   const MemoryReading worst = monitor.take_worst();        // since the last call
//
// Local; thread-safe. `read` is called by the monitor's thread, look_now() and take_worst(), never by two at once; what
// it throws ends up in take_worst().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

namespace zero {

struct MemoryReading {
  std::int64_t free_bytes = std::numeric_limits<std::int64_t>::max();  // available_memory()
  double pressure = 0;  // memory_pressure(): percent of the last ten seconds
};

// Of this machine, and the control group this process lives in.
MemoryReading read_memory();

class MemoryMonitor {
 public:
  using Source = std::function<MemoryReading()>;
  // `period` 0: no thread; then only take_worst() reads.
  MemoryMonitor(Source read, std::chrono::milliseconds period);
  MemoryMonitor(const MemoryMonitor&) = delete;
  MemoryMonitor& operator=(const MemoryMonitor&) = delete;
  ~MemoryMonitor();

  // The least free memory and the most pressure since the last call, and now.
  MemoryReading take_worst();
  // Where a thread looks, too: when memory is expected to be scarcest.
  void look_now();

 private:
  void watch(std::chrono::milliseconds period);
  void look();  // with the lock held

  Source read_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  MemoryReading worst_;
  std::exception_ptr failed_;
  std::thread thread_;
};

}  // namespace zero
