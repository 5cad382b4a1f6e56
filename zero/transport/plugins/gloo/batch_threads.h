// BatchThreads: while one of these lives, threads that this thread starts do not take a core from others when they wake
// (SCHED_BATCH). Where the system refuses, or this thread has a policy of its own, they are started as usual.
#pragma once

#include <sched.h>

namespace zero_gloo {

class BatchThreads {
 public:
  BatchThreads() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~BatchThreads() {
    if (changed_) set(SCHED_OTHER);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }

  bool changed_;
};

}  // namespace zero_gloo
