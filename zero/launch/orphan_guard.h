// OrphanGuard: a small process that outlives the launcher by a moment, and ends the processes that the launcher would
// leave behind.
//
// Each rank asks the kernel to be killed when the launcher dies (PR_SET_PDEATHSIG), but that reaches only the rank
// itself, not the processes it started. The guard holds one end of a pipe; when the launcher is gone, whatever killed
// it, the pipe closes and the guard kills every process group it was told of.
//
//   OrphanGuard guard;            // before the ranks are started
//   guard.watch(pid);   ...   guard.forget(pid);
//
// Local. The destructor ends the guard. Throws IoError when the system has no process or descriptor left.
#pragma once

#include <sys/types.h>

namespace zero {

class OrphanGuard {
 public:
  OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;
  ~OrphanGuard();

  // A process group. forget() before its number can be used again.
  void watch(pid_t group);
  void forget(pid_t group);

 private:
  void tell(pid_t message);

  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace zero
