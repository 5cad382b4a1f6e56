// Waiters: threads that wait in place of a thread that only wants to poll.
//
//   Waiters waiters;
//   auto wait = waiters.begin([&] { return buffer.waitRecv(...) ? Status::kDone : Status::kGone; });
//   wait->status()      // kLate until that has returned
//   wait->status_after(limit)
//
// Gloo's transfers can only be waited for: they cannot be polled, and a wait that ends too early closes all
// connections. There are as many threads as waits in flight at one time; a thread whose wait has ended takes the next
// one. The threads sleep and take no signals. Local. Called by one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "zero/comm/message/message_link.h"

namespace zero_gloo {

class Waiters {
 public:
  using Status = zero::MessageLink::Status;

  class Wait {
   public:
    Status status() { return status_after(std::chrono::milliseconds(0)); }
    // Returns as soon as the status is not kLate, or after `limit`.
    Status status_after(std::chrono::milliseconds limit);
    // Waits until the wait has returned. Whoever destroys the awaited object must first make the wait return.
    void finish();

   private:
    friend class Waiters;
    std::mutex mutex_;
    std::condition_variable changed_;
    Status status_ = Status::kLate;
    std::function<Status()> wait_;
  };

  Waiters() = default;
  // All waits must have ended.
  ~Waiters();
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  // Begins a wait. `wait` throws nothing and returns no kLate. Throws std::system_error if no further thread can be
  // started.
  std::shared_ptr<Wait> begin(std::function<Status()> wait);

 private:
  void add_thread();
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Wait>> waiting_;  // not yet taken by a thread
  std::size_t num_idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zero_gloo
