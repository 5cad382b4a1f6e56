#include "plugins/gloo/waiters.h"

#include <utility>

#include "zero/base/process/signals_blocked.h"

namespace zero_gloo {

Waiters::Status Waiters::Wait::status_after(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return status_ != Status::kLate; });
  return status_;
}

void Waiters::Wait::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return status_ != Status::kLate; });
}

Waiters::~Waiters() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<Waiters::Wait> Waiters::begin(std::function<Status()> wait) {
  auto begun = std::make_shared<Wait>();
  begun->wait_ = std::move(wait);
  const std::scoped_lock lock(mutex_);
  if (num_idle_ <= waiting_.size()) add_thread();
  waiting_.push_back(begun);
  changed_.notify_one();
  return begun;
}

// Blocks signals, because a thread inherits the blocked signals of its creator.
void Waiters::add_thread() {
  const zero::SignalsBlocked guard;
  threads_.emplace_back([this] { run(); });
}

void Waiters::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++num_idle_;
    changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
    --num_idle_;
    if (waiting_.empty()) return;
    const std::shared_ptr<Wait> next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const Status status = next->wait_();
    {
      const std::scoped_lock done(next->mutex_);
      next->status_ = status;
      next->changed_.notify_all();  // under the lock, because the reader of the status may destroy the wait
    }
    lock.lock();
  }
}

}  // namespace zero_gloo
