// OrphanGuard: a small process that outlives the launcher, and ends the processes that the launcher would leave.
//
//   OrphanGuard guard;            // before the ranks are started
//   guard.watch(pid);   ...   guard.forget(pid);
//
// Each rank asks the kernel to be killed when the launcher dies (PR_SET_PDEATHSIG). That does not reach the processes
// that the rank started. The guard holds one end of a pipe. When the launcher is gone, for any reason, the pipe closes,
// and the guard kills every process group that it watches.
//
// Local. The destructor ends the guard. Throws IoError if the system has no process or descriptor left.
#pragma once

#include <sys/types.h>

namespace zero {

class OrphanGuard {
 public:
  OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;
  ~OrphanGuard();

  // `group` is a process group. Call forget() before the system can use its number again.
  void watch(pid_t group);
  void forget(pid_t group);

 private:
  void send(pid_t message);

  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace zero
