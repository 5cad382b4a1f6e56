// SignalsBlocked: threads started during its lifetime block all signals, so the program's own threads receive them.
//
//   const SignalsBlocked blocked;
//   workers.emplace_back(work);      // inherits the mask; the calling thread's own mask is restored at the scope's end
//
// Local.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace zero {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace zero
