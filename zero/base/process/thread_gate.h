// ThreadGate: refuses a second thread that enters while another thread is inside.
//
//   ThreadGate gate;                              // a member of an object that serves one thread at a time
//   const ThreadGate::Entry entry(gate, rank);    // ConfigError if another thread is inside
//
// Threads may take turns, and the thread inside may enter again. Local; thread-safe.
#pragma once

#include <atomic>
#include <thread>

namespace zero {

class ThreadGate {
 public:
  class [[nodiscard]] Entry {
   public:
    // `rank`: named by the error.
    Entry(ThreadGate& gate, int rank) : gate_(gate) { gate_.enter(rank); }
    ~Entry() { gate_.leave(); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    ThreadGate& gate_;
  };

 private:
  void enter(int rank) {
    const std::thread::id self = std::this_thread::get_id();
    if (inside_.load(std::memory_order_relaxed) != self) {
      std::thread::id nobody;
      if (!inside_.compare_exchange_strong(nobody, self, std::memory_order_acquire)) [[unlikely]]
        refuse(rank);
    }
    ++depth_;
  }
  void leave() {
    if (--depth_ == 0) inside_.store(std::thread::id(), std::memory_order_release);
  }
  [[noreturn]] static void refuse(int rank);

  std::atomic<std::thread::id> inside_;
  int depth_ = 0;  // of the thread inside
};

}  // namespace zero
