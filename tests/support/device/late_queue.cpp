#include "tests/support/device/late_queue.h"

#include <utility>

#include "zero/base/error/check.h"

namespace zero {

void LateQueue::add(const DeviceOperation& operation, std::function<void()> work) {
  ZERO_CHECK(operation.actor < kNumLanes, "{} queues nothing", actor_name(operation.actor));
  lanes_[operation.actor].push_back({operation.number, operation.clock, std::move(work)});
}

bool LateQueue::done(const VectorClock& clock) const {
  return done_by_others(clock, kHostActor);
}

bool LateQueue::done_by_others(const VectorClock& clock, Actor self) const {
  for (Actor lane = 0; lane < kNumLanes; ++lane)
    if (lane != self && !lanes_[lane].empty() && clock.covers(lane, lanes_[lane].front().number)) return false;
  return true;
}

bool LateQueue::run_any(const VectorClock* needed) {
  std::array<Actor, kNumLanes> ready{};
  std::size_t num_ready = 0;
  for (Actor lane = 0; lane < kNumLanes; ++lane) {
    if (lanes_[lane].empty()) continue;
    const Entry& first = lanes_[lane].front();
    if (needed != nullptr && !needed->covers(lane, first.number)) continue;
    if (done_by_others(first.clock, lane)) ready[num_ready++] = lane;
  }
  if (num_ready == 0) return false;
  std::deque<Entry>& lane = lanes_[ready[random_() % num_ready]];
  const Entry entry = std::move(lane.front());
  lane.pop_front();  // first, because the work may throw
  entry.work();
  return true;
}

void LateQueue::run_until(const VectorClock& clock) {
  // Runs either only work that must not wait any longer, or any work. The second finds work that runs too early, the
  // first work that runs too late.
  const VectorClock* const needed = random_() % 2 == 0 ? &clock : nullptr;
  while (!done(clock)) ZERO_CHECK(run_any(needed), "queued operations wait for each other");
}

void LateQueue::run_one() {
  run_any(nullptr);
}

void LateQueue::run_all() {
  while (run_any(nullptr)) {
  }
}

}  // namespace zero
