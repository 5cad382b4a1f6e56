// Prefetcher: fills the next batches on a thread of its own while the current one is computed on.
//
//   Prefetcher batches(0, steps * accumulate, [&](std::int64_t i, Batch& batch) { train.fill(i, batch); });
//   const Batch& batch = batches.next();      // number 0, then 1, ...
//
// Two batches wait ready at most; the thread sleeps when they are, and never spins. Three buffers are used in turn and
// kept. An exception of `fill` is thrown by the next() that would have returned that batch, and by every later next().
// The destructor waits for the fill in progress. next() is for one thread. Local.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "app/data/sample/batch.h"

namespace zero {

class Prefetcher {
 public:
  using Fill = std::function<void(std::int64_t i, Batch& batch)>;

  // Batches [begin, end); `fill` is called on the thread, in order.
  Prefetcher(std::int64_t begin, std::int64_t end, Fill fill);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Valid until the next call. Asking beyond `end` is our bug.
  const Batch& next();

 private:
  static constexpr std::int64_t kAhead = 2;

  void run();
  Batch& buffer(std::int64_t i) { return buffers_[static_cast<std::size_t>(i) % buffers_.size()]; }

  const std::int64_t end_;
  const Fill fill_;
  std::array<Batch, kAhead + 1> buffers_;  // one with the consumer, kAhead ready or being filled

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t filled_;    // batches [.., filled_) are ready or used
  std::int64_t returned_;  // batches [.., returned_) were handed out
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace zero
