#include "zero/base/process/fork_mark.h"

#include <atomic>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Only the handler below changes it, in a child that has one thread.
std::atomic<int> num_forks_so_far{0};

void count_fork() {
  num_forks_so_far.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

ForkMark::ForkMark() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, &count_fork);
  if (registered != 0) throw IoError("pthread_atfork", "register", registered);
  num_forks_ = num_forks_so_far.load(std::memory_order_relaxed);
}

bool ForkMark::in_child() const {
  return num_forks_ != num_forks_so_far.load(std::memory_order_relaxed);
}

void ForkMark::throw_in_child(int rank) {
  const std::string parent = rank < 0 ? "a rank" : fmt::format("rank {}", rank);
  throw ConfigError("fork", parent,
                    fmt::format("this process was forked from {}, and is no rank of the run itself", parent),
                    "read what the child needs, such as a dataset's values, before attach(); or start workers with "
                    "spawn instead of fork");
}

// The list makes the objects reachable, so a leak checker does not report them.
void detail::keep_forever(void* object) {
  static auto& objects = *new std::vector<void*>;
  objects.push_back(object);
}

}  // namespace zero
