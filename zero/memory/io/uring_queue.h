// open_uring_queue(): makes an IoQueue over io_uring (liburing).
//
//   UringOpening opening = open_uring_queue(files, 32);
//   if (!opening.queue) ZERO_LOG(warn, "io_uring refused: {}", std::strerror(opening.error));
//
// Files are registered, and so is memory if this process may lock that much. Requests then need no look-ups. Local; one
// thread at a time, and the threads may change.
#pragma once

#include <memory>
#include <span>

#include "zero/memory/io/io_queue.h"
#include "zero/memory/io/uring_calls.h"

namespace zero {

struct UringOpening {
  std::unique_ptr<IoQueue> queue;  // null: refused
  int error = 0;                   // errno value of the refusal
};

// Files must stay open as long as the queue.
UringOpening open_uring_queue(std::span<const int> files, int depth, const UringCalls& calls = UringCalls::kernel());

}  // namespace zero
