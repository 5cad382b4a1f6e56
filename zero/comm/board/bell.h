// Bell: one rank sleeps on it until another rings. It works between threads and, in shared memory, between processes.
//
//   sleeper:  while (!changed()) bell.sleep(changed, 50ms);
//   others:   change();  bell.ring();
//
// ring() costs one load if nobody sleeps. No ring is lost. The sleeper sets its flag before it checks changed() once
// more. The other side changes the state before it checks the flag. These four accesses need one total order, so
// changed() must load, and change() must store, with memory_order_seq_cst. A bell has one sleeper. Zero bytes are a
// valid Bell.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace zero {

class Bell {
 public:
  // Local. Returns when rung, after `limit`, or spuriously; the caller checks again.
  template <class Changed>
  void sleep(Changed&& changed, std::chrono::milliseconds limit) {
    asleep_.store(1, std::memory_order_seq_cst);
    if (!changed()) wait_while_asleep(limit);
    asleep_.store(0, std::memory_order_seq_cst);
  }

  // Local. Wakes the sleeper, if there is one.
  void ring() {
    if (asleep_.load(std::memory_order_seq_cst) == 0) return;
    if (asleep_.exchange(0, std::memory_order_seq_cst) == 1) wake();
  }

 private:
  void wait_while_asleep(std::chrono::milliseconds limit);
  void wake();

  std::atomic<std::uint32_t> asleep_;
};

// Local. Polls changed() for a microsecond or two. This pays only if the other side has a core of its own.
template <class Changed>
bool spin_until(Changed&& changed) {
  for (int i = 0; i < 64; ++i) {
    if (changed()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return changed();
}

}  // namespace zero
