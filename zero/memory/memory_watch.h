// MemoryWatch: watches how much of this machine's memory other programs leave free.
//
//   MemoryWatch monitor(read_memory, std::chrono::milliseconds(20));
//   ...                                                      // a step
//   const MemoryReading worst = monitor.take_worst();        // since the last call
//
// A step allocates and frees activations, and other programs allocate at any time. So the free memory at the end of a
// step says little about its minimum. A thread therefore reads every few milliseconds, and keeps the worst reading. On
// a busy machine it may not run in time; only look_now() and take_worst() read for certain.
//
// Local; thread-safe. The monitor's thread, look_now() and take_worst() call `read`, never two at once. take_worst()
// throws its exceptions.
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
  double pressure = 0;  // memory_pressure(): percentage of the last ten seconds
};

// Reads this machine, and this process's control group.
MemoryReading read_memory();

class MemoryWatch {
 public:
  using Source = std::function<MemoryReading()>;
  // `period` 0: no thread; only take_worst() reads.
  MemoryWatch(Source read, std::chrono::milliseconds period);
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  ~MemoryWatch();

  // Returns the least free memory and the highest pressure since the last call, including now.
  MemoryReading take_worst();
  // Reads now, in addition to the thread: for moments when memory is expected to be scarcest.
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
