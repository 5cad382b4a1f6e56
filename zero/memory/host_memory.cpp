#include "zero/memory/host_memory.h"

#include <malloc.h>

#include "zero/device/host_device.h"

namespace zero {
Allocation allocate_host(std::size_t bytes) {
  return HostDevice::instance().allocate(bytes);
}

bool keep_heap() {
#ifdef __GLIBC__
  // One heap: the heaps of further arenas are mappings of 64 MiB that glibc unmaps as they empty, whatever the trim
  // threshold says, and memory that one thread freed would not serve another (autograd's threads free what the caller's
  // made). Small blocks have their per-thread cache and do not meet at its lock.
  const bool one_heap = mallopt(M_ARENA_MAX, 1) == 1;
  // No block is a mapping of its own: those go back to the kernel when freed, to be faulted in and zeroed anew at the
  // next step. (A higher threshold would not do: glibc takes none above 32 MiB, and logits are larger.)
  const bool no_mappings = mallopt(M_MMAP_MAX, 0) == 1;
  // The heap's end is never given back; -1 is "not at all", where a number would end at 2 GiB.
  const bool no_trim = mallopt(M_TRIM_THRESHOLD, -1) == 1;
  // It grows by 64 MiB at a time: fewer system calls; what is not touched costs nothing.
  const bool large_steps = mallopt(M_TOP_PAD, 64 << 20) == 1;
  return one_heap && no_mappings && no_trim && large_steps;
#else
  return false;
#endif
}

}  // namespace zero
