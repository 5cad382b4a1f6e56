#include "zero/base/process/parallel.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "zero/base/error/check.h"
#include "zero/base/process/signals_blocked.h"

namespace zero {
namespace {

constexpr int kFewestThatLook = 4;

// Yields until the condition holds, but only for a while.
template <typename Condition>
void look_for_a_while(Condition holds) {
  constexpr std::chrono::microseconds kWhile(50);
  const auto end = std::chrono::steady_clock::now() + kWhile;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

// One call of for_range(). It is on the caller's stack until the last worker has left it.
struct ThreadTeam::Loop {
  const std::int64_t begin;
  const std::int64_t end;
  const std::int64_t grain;
  const std::int64_t num_blocks;
  const RangeBody body;
  std::atomic<std::int64_t> next_block{0};
  std::mutex error_mutex{};
  std::exception_ptr error{};

  void run() noexcept {
    for (std::int64_t block; (block = next_block.fetch_add(1, std::memory_order_relaxed)) < num_blocks;) {
      const std::int64_t from = begin + block * grain;
      try {
        body(from, std::min(grain, end - from) + from);
      } catch (...) {
        next_block.store(num_blocks, std::memory_order_relaxed);
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
  }
};

ThreadTeam::ThreadTeam(int size) : looks_first_(size >= kFewestThatLook) {
  ZERO_CHECK(size >= 1, "a team of {} threads", size);
  const SignalsBlocked blocked;
  try {
    for (int i = 1; i < size; ++i) workers_.emplace_back([this] { run_worker(); });
  } catch (...) {  // the system is out of threads: the started ones must end before *this does
    stop();
    throw;
  }
}

ThreadTeam::~ThreadTeam() {
  stop();
}

void ThreadTeam::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadTeam::run_worker() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    if (looks_first_ && seen != 0 && !stopping_) {
      lock.unlock();
      look_for_a_while([&] { return generation_.load(std::memory_order_relaxed) != seen; });
      lock.lock();
    }
    wake_.wait(lock, [&] { return stopping_ || (loop_ != nullptr && generation_ != seen); });
    if (stopping_) return;
    seen = generation_;
    Loop& loop = *loop_;
    ++num_inside_;
    lock.unlock();
    loop.run();
    lock.lock();
    if (--num_inside_ == 0) idle_.notify_one();
  }
}

void ThreadTeam::for_range(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeBody body) {
  ZERO_CHECK(grain >= 1, "a grain of {}", grain);
  if (begin >= end) return;
  Loop loop{.begin = begin, .end = end, .grain = grain, .num_blocks = (end - begin - 1) / grain + 1, .body = body};
  {
    const std::lock_guard lock(mutex_);
    ZERO_CHECK(!busy_, "a ThreadTeam runs one loop at a time");
    busy_ = true;
    if (loop.num_blocks > 1 && !workers_.empty()) {
      loop_ = &loop;
      ++generation_;
    }
  }
  // No more workers are woken than there is work for. A worker that wakes late finds loop_ null, and is not waited for.
  const auto num_wanted = std::min<std::int64_t>(loop.num_blocks - 1, static_cast<std::int64_t>(workers_.size()));
  for (std::int64_t i = 0; i < num_wanted; ++i) wake_.notify_one();
  loop.run();
  {
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
    if (looks_first_) {
      lock.unlock();
      look_for_a_while([&] { return num_inside_.load(std::memory_order_relaxed) == 0; });
      lock.lock();
    }
    idle_.wait(lock, [&] { return num_inside_ == 0; });
    busy_ = false;
  }
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace zero
