#include "app/data/prefetcher.h"

#include <utility>

#include "zero/base/error/check.h"

namespace zero {

Prefetcher::Prefetcher(std::int64_t begin, std::int64_t end, Fill fill)
    : end_(end), fill_(std::move(fill)), filled_(begin), returned_(begin), thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const Batch& Prefetcher::next() {
  std::unique_lock lock(mutex_);
  ZERO_CHECK(returned_ < end_, "batch {} of {}", returned_, end_);
  changed_.wait(lock, [&] { return filled_ > returned_ || error_; });
  if (filled_ == returned_) std::rethrow_exception(error_);
  const std::int64_t i = returned_++;
  changed_.notify_all();
  return buffer(i);
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  while (filled_ < end_) {
    // The caller uses batch returned_ - 1. The other kAhead buffers may be filled.
    changed_.wait(lock, [&] { return stop_ || filled_ < returned_ + kAhead; });
    if (stop_) return;
    const std::int64_t i = filled_;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(i, buffer(i));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      changed_.notify_all();
      return;
    }
    filled_ = i + 1;
    changed_.notify_all();
  }
}

}  // namespace zero
