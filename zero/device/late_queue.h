// LateQueue: work in lanes that is done as late as possible, in a random order that lanes and marks allow.
//
//   LateQueue queue(seed);
//   queue.add(Lane::kUp, operation, [=] { ... });
//   queue.run_until(mark);   // what comes before the mark, and in every other call some that does not
//
// So work that nothing orders runs in another order than it was queued, and changes bits. Local; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>

#include "zero/device/device_operation.h"

namespace zero {

class LateQueue {
 public:
  explicit LateQueue(std::uint64_t seed) : random_(seed) {}

  // `operation` is the next one of its lane; its clock says what it comes after.
  void add(const DeviceOperation& operation, std::function<void()> work);
  // Whether all that the clock covers is done.
  bool done(const VectorClock& clock) const;
  void run_until(const VectorClock& clock);
  void run_one();  // any that can run, where one is left
  void run_all();

 private:
  struct Entry {
    std::uint64_t number;
    VectorClock clock;
    std::function<void()> work;
  };
  bool done_by_others(const VectorClock& clock, Actor self) const;
  // Runs one of the lanes' first entries that have nothing to wait for. `needed`: one that the clock covers.
  bool run_any(const VectorClock* needed);

  std::array<std::deque<Entry>, kNumLanes> lanes_;
  std::mt19937_64 random_;
};

}  // namespace zero
