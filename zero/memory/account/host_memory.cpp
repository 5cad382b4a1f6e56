#include "zero/memory/account/host_memory.h"

#include <malloc.h>

#include "zero/device/host_device.h"

namespace zero {
Allocation allocate_host(std::size_t bytes) {
  return HostDevice::instance().allocate(bytes);
}

bool keep_heap() {
#ifdef __GLIBC__
  // One heap. glibc unmaps heaps of further arenas (64 MiB mappings) when they empty, whatever the trim threshold. One
  // thread's freed memory would also not serve another, and autograd's threads free the caller's memory. Small blocks
  // use a per-thread cache, so the heap's lock is rarely contended.
  const bool one_heap = mallopt(M_ARENA_MAX, 1) == 1;
  // No block gets its own mapping. A freed mapping returns to the kernel, and the next step would fault in and zero new
  // pages. (A higher threshold is not enough: glibc accepts none above 32 MiB, and logits are larger.)
  const bool no_mappings = mallopt(M_MMAP_MAX, 0) == 1;
  // The heap's end is never returned; -1 means never, any number would stop at 2 GiB.
  const bool no_trim = mallopt(M_TRIM_THRESHOLD, -1) == 1;
  // The heap grows by 64 MiB at a time: fewer system calls, and untouched memory costs nothing.
  const bool large_steps = mallopt(M_TOP_PAD, 64 << 20) == 1;
  return one_heap && no_mappings && no_trim && large_steps;
#else
  return false;
#endif
}

}  // namespace zero
