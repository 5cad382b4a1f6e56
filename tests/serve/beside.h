// Beside: one of three workers pauses, and continues when the other workers are far enough ahead. The order is forced,
// and does not depend on speed.
//
//   Beside beside(12);
//   run.before = [&](int worker, std::int64_t clock) { beside.at(worker, clock); };  // and where worker 2 stops:
//   beside.stand();                                                 // returns when another worker is in clock 12
//   EXPECT_GE(beside.ahead(), 12);
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>

#include "zero/plan/served/push_order.h"

namespace zero {

// Waits for an event in another thread. The limit ends a broken run.
template <class Event>
void await_event(Event event) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!event() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Worker 2 pauses until another worker is in clock `until`. Worker 0 passes clock 3 only after worker 2 has paused. It
// passes clock `until` + 8 only after worker 2 has begun two clocks from `until` on. So worker 2's push of the first of
// these clocks counts. With `both_wait`, worker 1 also waits at clock 3. Otherwise it might reach `until` before worker
// 2 pauses.
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
