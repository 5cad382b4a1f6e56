// BatchThreads: threads that are started during its lifetime do not preempt others when they wake (SCHED_BATCH). If the
// system refuses, or the calling thread has a policy of its own, threads start as usual.
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
