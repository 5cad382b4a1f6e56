// ThreadTeam: a fixed number of threads that share one loop at a time.
//
//   ThreadTeam team(4);                                        // this thread and three workers
//   team.for_range(0, numel, 1 << 16,
//                  [&](std::int64_t begin, std::int64_t end) { rule.update(piece(begin, end), scalars); });
//
// The range is cut into blocks [begin + i * grain, begin + (i + 1) * grain); the last one may be shorter. The cuts
// depend only on the range and the grain, not on the number of threads. So a sum over a block has the same bits
// everywhere. Any thread may take any block. Idle workers sleep in the kernel, because ranks may outnumber cores.
// Workers of a team of four or more first look for another loop, for less time than waking takes, and yield meanwhile.
// Workers block all signals, so the program's own threads receive them. Local.
#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace zero {

// A borrowed callable void(begin, end): two pointers, no allocation. Valid as long as the callable that it refers to.
class RangeBody {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, RangeBody> && std::invocable<F&, std::int64_t, std::int64_t>)
      RangeBody(F&& body)  // NOLINT: implicit, because callers pass a lambda
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

class ThreadTeam {
 public:
  // `size` counts the calling thread: a team of 1 starts no thread and runs everything inline.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs all blocks, and returns when they are done. The caller also works. If a body throws, blocks that have not
  // begun are skipped, and the first exception is thrown here. One call at a time: not from two threads, and not from
  // inside a body.
  void for_range(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeBody body);

 private:
  struct Loop;
  void run_worker();
  void stop();

  const bool looks_first_;  // before it sleeps
  std::mutex mutex_;
  std::condition_variable wake_;               // for workers: a new loop, or the end
  std::condition_variable idle_;               // for the caller: the last worker has left the loop
  Loop* loop_ = nullptr;                       // null: nothing to join
  std::atomic<std::uint64_t> generation_ = 0;  // number of loops, so a worker joins each at most once
  std::atomic<int> num_inside_ = 0;            // workers inside the loop
  bool busy_ = false;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace zero
