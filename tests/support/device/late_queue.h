// LateQueue: runs work of lanes as late as possible, in a random order that lanes and marks allow.
//
//   LateQueue queue(seed);
//   queue.add(operation, [=] { ... });
//   queue.run_until(clock);  // runs the work before that point; about every second call also runs other work
//
// So work without an order runs in another order than it was queued in, and changes bits. Local; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>

#include "tests/support/device/device_operation.h"

namespace zero {

class LateQueue {
 public:
  explicit LateQueue(std::uint64_t seed) : random_(seed) {}

  // Adds the next operation of its lane; its clock says which operations precede it.
  void add(const DeviceOperation& operation, std::function<void()> work);
  // Returns whether all work that the clock covers is done.
  bool done(const VectorClock& clock) const;
  void run_until(const VectorClock& clock);
  void run_one();  // runs any operation that can run, if one is left
  void run_all();

 private:
  struct Entry {
    std::uint64_t number;
    VectorClock clock;
    std::function<void()> work;
  };
  bool done_by_others(const VectorClock& clock, Actor self) const;
  // Runs one of the lanes' first entries that need not wait. `needed`: only entries that this clock covers.
  bool run_any(const VectorClock* needed);

  std::array<std::deque<Entry>, kNumLanes> lanes_;
  std::mt19937_64 random_;
};

}  // namespace zero
