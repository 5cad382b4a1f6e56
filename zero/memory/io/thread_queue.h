// ThreadQueue: an IoQueue over threads that call pread and pwrite, for systems that refuse io_uring.
//
// It has as many threads as requests may be under way, up to kMaxThreads; idle threads sleep. A thread that hangs in
// the kernel when the queue is destroyed is left behind, with its own descriptors of the files. Local; one thread at a
// time.
#pragma once

#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "zero/memory/io/file_calls.h"
#include "zero/memory/io/io_queue.h"

namespace zero {

class ThreadQueue final : public IoQueue {
 public:
  static constexpr int kMaxThreads = 32;

  // `calls` must outlive its threads, including those left behind. Throws IoError if the system has no more descriptors
  // or threads.
  ThreadQueue(std::span<const int> files, int depth, const FileCalls& calls = FileCalls::kernel());
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;
  ~ThreadQueue() override;

  int submit(const IoRequest& request) override;
  int reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) override;
  // Succeeds only for a request that no thread has begun.
  void cancel(std::uint64_t tag) override;
  // Returns ENOTSUP: threads look up pages at every request.
  int register_memory(std::span<std::byte> memory) override;
  void forget_memory(std::span<std::byte>) override {}
  std::string_view name() const override { return "threads"; }

 private:
  struct Shared;
  void stop();

  std::shared_ptr<Shared> shared_;  // shared with the threads, which may outlive the queue
  std::vector<std::thread> threads_;
};

}  // namespace zero
