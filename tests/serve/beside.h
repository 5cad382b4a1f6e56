// Beside: a worker of three that stands still while the others go on, and goes on when they are far enough. All of it is
// forced: nobody is fast or slow.
//
//   Beside beside(12);
//   run.before = [&](int worker, std::int64_t clock) { beside.at(worker, clock); };  // and where worker 2 is to stand:
//   beside.stand();                                                                  // returns when another is in clock 12
//   EXPECT_GE(beside.ahead(), 12);
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>

#include "zero/plan/served/push_order.h"

namespace zero {

// Waits for an event that another thread brings about; the limit ends a broken run.
template <class Event>
void await_event(Event event) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!event() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Worker 2 stands still until another has come to clock `until`. Worker 0 goes beyond clock 3 when worker 2 stands, and eight
// clocks beyond `until` when worker 2 has come to two clocks from `until` on: so its push of the first of them counts. Worker 1
// waits at clock 3, too, if both do: otherwise it may be at `until` before worker 2 stands.
class Beside {
 public:
  explicit Beside(std::int64_t until, bool both_wait = false) : until_(until), both_wait_(both_wait) {}
  void at(int worker, std::int64_t clock) {
    if (worker == 2) {
      if (ahead_ >= 0 && clock >= until_) ++computed_again_;
      return;
    }
    if ((worker == 0 || both_wait_) && clock >= 3) await_event([this] { return stands_.load(); });
    if (worker == 0 && clock >= until_ + 8) await_event([this] { return computed_again_ >= 2; });
    std::int64_t before = furthest_.load();
    while (before < clock && !furthest_.compare_exchange_weak(before, clock)) {
    }
  }
  void stand() {
    stands_ = true;
    await_event([this] { return furthest_.load() >= until_; });
    ahead_ = furthest_.load();
  }
  std::int64_t ahead() const { return ahead_; }

 private:
  const std::int64_t until_;
  const bool both_wait_;
  std::atomic<std::int64_t> furthest_{0};
  std::atomic<std::int64_t> ahead_{-1};
  std::atomic<bool> stands_{false};
  std::atomic<int> computed_again_{0};
};

inline std::int64_t last_push(int worker, const std::deque<PushEvent>& events) {
  std::int64_t last = -1;
  for (const PushEvent& event : events)
    if (event.worker == worker && !event.leaves) last = event.clock;
  return last;
}

}  // namespace zero
