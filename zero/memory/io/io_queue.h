// IoQueue: sends reads and writes to the kernel, and returns the kernel's answers unchanged.
//
//   queue->submit({.operation = IoOperation::kRead, .file = 0, .offset = 4096, .memory = page, .tag = 7});
//   std::array<IoAnswer, 8> answers;
//   const int count = queue->reap(answers, std::chrono::seconds(1));
//   // 1, and answers[0] is {.tag = 7, .result = 4096}
//
// DiskRequests decides for every queue how to treat short or failed answers (disk_requests.h). Queues: io_uring
// (uring_queue.h), threads (thread_queue.h), and those of tests. A queue has fixed open files, which requests name by
// index, and a depth: the most requests under way. Its destructor does not wait for requests that hang; no others may
// be under way. The kernel keeps their files and, with O_DIRECT, their memory's pages until it answers: unmapped pages
// are not reused elsewhere. Memory that is reused instead may still be overwritten by a late read. Local; one thread at
// a time. Errors are errno values, not exceptions.
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
  std::span<std::byte> memory;  // only read by a write
  std::uint64_t tag = 0;        // returned with the answer; unique among requests under way
};

struct IoAnswer {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // moved bytes, perhaps fewer than requested; or a negative errno value
};

class IoQueue {
 public:
  virtual ~IoQueue() = default;

  // Returns 0, or an errno value: then the request is not under way and gets no answer.
  virtual int submit(const IoRequest& request) = 0;

  // Returns the number of answers put into `into`. Waits up to `wait` for the first; may return 0 earlier. A negative
  // errno value means that no more answers will follow.
  virtual int reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) = 0;

  // Asks for an early end. The request is answered in any case, with -ECANCELED if the cancellation succeeded.
  virtual void cancel(std::uint64_t tag) = 0;

  // As DiskTier's. Returns 0, or an errno value if memory cannot be registered.
  virtual int register_memory(std::span<std::byte> memory) = 0;
  virtual void forget_memory(std::span<std::byte> memory) = 0;

  virtual std::string_view name() const = 0;  // "io_uring"
};

}  // namespace zero
