// open_uring_queue(): an IoQueue over io_uring (liburing). Files are registered, and memory where the kernel lets this process
// lock that much, so that a request looks neither of them up.
//
//   UringOpening opening = open_uring_queue(files, 32);
//   if (!opening.queue) ZERO_LOG(warn, "io_uring refused: {}", std::strerror(opening.error));
//
// Local; one thread at a time, and the threads may change.
#pragma once

#include <memory>
#include <span>

#include "zero/memory/io_queue.h"
#include "zero/memory/uring_calls.h"

namespace zero {

struct UringOpening {
  std::unique_ptr<IoQueue> queue;  // null: refused
  int error = 0;                   // the errno value it was refused with
};

// Files stay open as long as the queue.
UringOpening open_uring_queue(std::span<const int> files, int depth, const UringCalls& calls = UringCalls::kernel());

}  // namespace zero
