// Prefetcher: fills the next batches on its own thread while the caller uses the current batch.
//
//   Prefetcher batches(0, steps * accumulate, [&](std::int64_t i, Batch& batch) { train.fill(i, batch); });
//   const Batch& batch = batches.next();      // number 0, then 1, ...
//
// At most two batches are filled ahead. Then the thread sleeps; it never spins. Three buffers are used in turn. If
// `fill` throws, the next() that would have returned that batch rethrows the exception, and so does every later next().
// The destructor waits for the fill in progress. Only one thread may call next(). Local.
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

  // Fills batches [begin, end) in order. `fill` is called on the prefetcher's thread.
  Prefetcher(std::int64_t begin, std::int64_t end, Fill fill);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns the next batch, which is valid until the next call. Must not be called more than end - begin times.
  const Batch& next();

 private:
  static constexpr std::int64_t kAhead = 2;

  void run();
  Batch& buffer(std::int64_t i) { return buffers_[static_cast<std::size_t>(i) % buffers_.size()]; }

  const std::int64_t end_;
  const Fill fill_;
  std::array<Batch, kAhead + 1> buffers_;  // the caller's batch, and kAhead that are ready or being filled

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t filled_;    // batches [.., filled_) are ready or used
  std::int64_t returned_;  // next() has returned batches [.., returned_)
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;  // last member: it starts after all other members are constructed
};

}  // namespace zero
