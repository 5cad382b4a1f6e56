#include "zero/memory/io/thread_queue.h"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <system_error>

#include "zero/base/error/check.h"
#include "zero/base/files/file.h"
#include "zero/base/process/signals_blocked.h"

namespace zero {

struct ThreadQueue::Shared {
  explicit Shared(const FileCalls& calls) : calls(calls) {}

  void run(std::size_t thread);
  std::int64_t move(const IoRequest& request) const;

  const FileCalls& calls;
  std::vector<FileDescriptor> files{};
  std::mutex mutex{};
  std::condition_variable requested{};
  std::condition_variable answered{};
  std::deque<IoRequest> waiting{};
  std::deque<IoAnswer> answers{};
  std::vector<bool> busy{};  // by thread: whether it is in a system call
  bool stopping = false;
};

void ThreadQueue::Shared::run(std::size_t thread) {
  std::unique_lock lock(mutex);
  for (;;) {
    requested.wait(lock, [&] { return stopping || !waiting.empty(); });
    if (stopping) return;
    const IoRequest request = waiting.front();
    waiting.pop_front();
    busy[thread] = true;
    lock.unlock();
    const std::int64_t result = move(request);
    lock.lock();
    busy[thread] = false;
    answers.push_back({request.tag, result});
    answered.notify_one();
  }
}

std::int64_t ThreadQueue::Shared::move(const IoRequest& request) const {
  const int fd = files[static_cast<std::size_t>(request.file)].get();
  return request.operation == IoOperation::kRead ? calls.read(fd, request.memory, request.offset)
                                                 : calls.write(fd, request.memory, request.offset);
}

ThreadQueue::ThreadQueue(std::span<const int> files, int depth, const FileCalls& calls)
    : shared_(std::make_shared<Shared>(calls)) {
  ZERO_CHECK(depth > 0, "a queue of depth {}", depth);
  for (const int file : files) {
    const int fd = calls.duplicate(file);
    if (fd < 0) throw IoError("threads for the disk", "duplicate a descriptor", -fd);
    shared_->files.emplace_back(fd);
  }
  const auto num_threads = static_cast<std::size_t>(std::min(depth, kMaxThreads));
  shared_->busy.resize(num_threads);
  const SignalsBlocked blocked;
  try {
    for (std::size_t i = 0; i < num_threads; ++i) threads_.emplace_back([shared = shared_, i] { shared->run(i); });
  } catch (const std::system_error& error) {
    stop();
    throw IoError("threads for the disk", "start a thread", error.code().value());
  }
}

ThreadQueue::~ThreadQueue() {
  stop();
}

void ThreadQueue::stop() {
  std::vector<bool> hanging;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    hanging = shared_->busy;
  }
  shared_->requested.notify_all();
  for (std::size_t i = 0; i < threads_.size(); ++i) hanging[i] ? threads_[i].detach() : threads_[i].join();
}

int ThreadQueue::submit(const IoRequest& request) {
  ZERO_CHECK(request.file >= 0 && request.file < static_cast<int>(shared_->files.size()), "file {}", request.file);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.push_back(request);
  }
  shared_->requested.notify_one();
  return 0;
}

int ThreadQueue::reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) {
  std::unique_lock lock(shared_->mutex);
  if (wait.count() > 0) shared_->answered.wait_for(lock, wait, [&] { return !shared_->answers.empty(); });
  int count = 0;
  for (; count < static_cast<int>(into.size()) && !shared_->answers.empty(); ++count) {
    into[static_cast<std::size_t>(count)] = shared_->answers.front();
    shared_->answers.pop_front();
  }
  return count;
}

void ThreadQueue::cancel(std::uint64_t tag) {
  const std::lock_guard lock(shared_->mutex);
  const auto is_it = [&](const IoRequest& request) { return request.tag == tag; };
  if (std::erase_if(shared_->waiting, is_it) > 0) shared_->answers.push_back({tag, -ECANCELED});
}

int ThreadQueue::register_memory(std::span<std::byte>) {
  return ENOTSUP;
}

}  // namespace zero
