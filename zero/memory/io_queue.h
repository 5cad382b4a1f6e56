// IoQueue: reads and writes on their way to the kernel and back. It gives the kernel's answers as they are;
// DiskRequests decides for every queue what a short or failed answer means (disk_requests.h).
//
//   queue->submit({.operation = IoOperation::kRead, .file = 0, .offset = 4096, .memory = page, .tag = 7});
//   std::array<IoAnswer, 8> answers;
//   const int count = queue->reap(answers, std::chrono::seconds(1));
//   // 1, and answers[0] is {.tag = 7, .result = 4096}
//
// Queues: io_uring (uring_queue.h), threads (thread_queue.h), and those of the tests. A queue is made for a number of
// open files, which requests name by index, and for a depth: no more requests than that may be under way.
//
// Destroyed when nothing is under way but requests that hang: it does not wait for those. The kernel keeps hold of
// their files and, past the page cache, of their memory's pages until it answers: pages that are unmapped meanwhile are
// given to nobody else. Memory that is used again instead may still be overwritten by a late read.
//
// Local; one thread at a time. Errors are errno values, not exceptions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace zero {

enum class IoOperation : std::uint8_t { kRead, kWrite };

struct IoRequest {
  IoOperation operation = IoOperation::kRead;
  int file = 0;
  std::int64_t offset = 0;
  std::span<std::byte> memory;  // a write only reads it
  std::uint64_t tag = 0;        // comes back with the answer; one's own among those under way
};

struct IoAnswer {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, perhaps fewer than asked for; or an errno value, negative
};

class IoQueue {
 public:
  virtual ~IoQueue() = default;

  // 0, or an errno value: then the request is not under way and gets no answer.
  virtual int submit(const IoRequest& request) = 0;

  // The number of answers put into `into`. Waits up to `wait` for the first; 0 may come earlier. A negative errno
  // value: there will be no answers any more.
  virtual int reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) = 0;

  // Asks for an early end. The request is answered all the same, -ECANCELED where it worked; it need not work.
  virtual void cancel(std::uint64_t tag) = 0;

  // As DiskTier's. 0, or an errno value: nothing is gained.
  virtual int register_memory(std::span<std::byte> memory) = 0;
  virtual void forget_memory(std::span<std::byte> memory) = 0;

  virtual std::string_view name() const = 0;  // "io_uring"
};

}  // namespace zero
