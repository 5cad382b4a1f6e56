#include "zero/memory/memory_watch.h"

#include <algorithm>
#include <utility>

#include "zero/base/process/machine.h"
#include "zero/base/process/signals_blocked.h"

namespace zero {

MemoryReading read_memory() {
  return {.free_bytes = available_memory(), .pressure = memory_pressure()};
}

MemoryWatch::MemoryWatch(Source read, std::chrono::milliseconds period) : read_(std::move(read)) {
  if (period.count() == 0) return;
  const SignalsBlocked blocked;
  thread_ = std::thread([this, period] { watch(period); });
}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MemoryWatch::watch(std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period, [this] { return ends_; })) look();
}

void MemoryWatch::look() {
  try {
    const MemoryReading now = read_();
    worst_.free_bytes = std::min(worst_.free_bytes, now.free_bytes);
    worst_.pressure = std::max(worst_.pressure, now.pressure);
  } catch (...) {
    failed_ = std::current_exception();
  }
}

void MemoryWatch::look_now() {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(mutex_);
  look();
}

MemoryReading MemoryWatch::take_worst() {
  const std::lock_guard lock(mutex_);
  look();
  if (failed_ != nullptr) std::rethrow_exception(std::exchange(failed_, nullptr));
  return std::exchange(worst_, {});
}

}  // namespace zero
