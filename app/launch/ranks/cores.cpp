#include "app/launch/ranks/cores.h"

#include <cerrno>

#include <sched.h>

#include "zero/base/error/check.h"

namespace zero {

std::vector<int> allowed_cores() {
  // The kernel refuses a set smaller than its own; machines beyond 1,024 cores exist.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    ZERO_CHECK(set != nullptr);
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(bytes, set);
    std::vector<int> cores;
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int core = 0; known && core < capacity; ++core) {
      if (CPU_ISSET_S(core, bytes, set)) cores.push_back(core);
    }
    CPU_FREE(set);
    if (known) return cores;
    if (errno != EINVAL) break;
  }
  return {0};
}

std::vector<int> share_of_cores(std::span<const int> cores, int local_rank, int local_world) {
  ZERO_CHECK(local_rank >= 0 && local_rank < local_world, "rank {} of {}", local_rank, local_world);
  const std::size_t share = cores.size() / static_cast<std::size_t>(local_world);
  const auto mine = cores.subspan(share * static_cast<std::size_t>(local_rank), share);
  return {mine.begin(), mine.end()};
}

}  // namespace zero
