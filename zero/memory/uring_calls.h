// UringCalls: the system calls of io_uring, one function each, so that a test can let each of them fail.
//
// As in liburing, 0 (or a count) or a negative errno value. Local, without state.
#pragma once

#include <chrono>
#include <span>

struct io_uring;
struct io_uring_cqe;
struct iovec;

namespace zero {

class UringCalls {
 public:
  virtual ~UringCalls() = default;
  static const UringCalls& kernel();

  // -EPERM: forbidden; -ENOSYS: no io_uring, or one older than Linux 5.11, which could not wait with a limit.
  virtual int set_up(unsigned entries, io_uring& ring) const;
  virtual int register_files(io_uring& ring, std::span<const int> files) const;
  // A table of registered buffers, all empty. -EINVAL: a kernel older than Linux 5.19.
  virtual int make_buffer_table(io_uring& ring, unsigned slots) const;
  virtual int set_buffer(io_uring& ring, unsigned slot, const iovec& buffer) const;  // of 0 bytes: empty again
  virtual int submit(io_uring& ring) const;                                 // what was prepared; the number taken
  virtual int wait(io_uring& ring, std::chrono::milliseconds limit) const;  // 0: there is an answer; -ETIME
};

}  // namespace zero
