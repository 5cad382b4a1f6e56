// Waiters: threads that wait in the place of one that only wants to look.
//
//   Waiters waiters;
//   auto wait = waiters.begin([&] { return buffer.waitRecv(...) ? Status::kDone : Status::kGone; });
//   wait->status()      // kLate until that has returned
//   wait->status_after(limit)
//
// Gloo's transfers can be waited for, and nothing else: they cannot be asked, and a wait that ends too early closes all
// connections. As many threads as waits are under way at one time; a thread whose wait has ended takes the next one. They
// sleep, and take no signals. Local. Called by one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "zero/comm/message_link.h"

namespace zero_gloo {

class Waiters {
 public:
  using Status = zero::MessageLink::Status;

  class Wait {
   public:
    Status status() { return status_after(std::chrono::milliseconds(0)); }
    // As soon as it is not kLate any more.
    Status status_after(std::chrono::milliseconds limit);
    // Returns when the wait has: whoever destroys what it waits for sees to that first.
    void finish();

   private:
    friend class Waiters;
    std::mutex mutex_;
    std::condition_variable changed_;
    Status status_ = Status::kLate;
    std::function<Status()> wait_;
  };

  Waiters() = default;
  // All waits have ended.
  ~Waiters();
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  // `wait` throws nothing and returns anything but kLate. Throws std::system_error where there can be no more threads.
  std::shared_ptr<Wait> begin(std::function<Status()> wait);

 private:
  void add_thread();
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Wait>> waiting_;  // for a thread
  std::size_t num_idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zero_gloo
