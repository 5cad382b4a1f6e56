// UringCalls: the system calls of io_uring, one function each, which a test can let fail.
//
// As in liburing, functions return 0 (or a count) or a negative errno value. Local, stateless.
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

  // Returns -EPERM if forbidden; -ENOSYS without io_uring, or before Linux 5.11, which cannot wait with a limit.
  virtual int set_up(unsigned entries, io_uring& ring) const;
  virtual int register_files(io_uring& ring, std::span<const int> files) const;
  // Makes a table of empty registered buffers. -EINVAL: the kernel is older than Linux 5.19.
  virtual int make_buffer_table(io_uring& ring, unsigned slots) const;
  virtual int set_buffer(io_uring& ring, unsigned slot, const iovec& buffer) const;  // 0 bytes: empties the slot
  virtual int submit(io_uring& ring) const;  // submits prepared requests; returns their number
  virtual int wait(io_uring& ring, std::chrono::milliseconds limit) const;  // 0: an answer is available; -ETIME
};

}  // namespace zero
