#include "zero/comm/board/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace zero {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel compares these four bytes");

// Not FUTEX_PRIVATE_FLAG, because the word may be in memory shared by processes.
void Bell::wait_while_asleep(std::chrono::milliseconds limit) {
  const timespec relative{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1000000};
  syscall(SYS_futex, &asleep_, FUTEX_WAIT, 1, &relative, nullptr, 0);
}

void Bell::wake() {
  syscall(SYS_futex, &asleep_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace zero
