#include "zero/memory/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"

namespace zero {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

[[noreturn]] void refuse(std::size_t bytes, int error) {
  throw ConfigError(
      "memory", format_bytes(static_cast<std::int64_t>(std::min(bytes, std::size_t{INT64_MAX}))),
      fmt::format("the system does not give this process that much ({})", std::strerror(error)),
      "use more ranks, a higher stage or a smaller model; `ulimit -v` and /proc/sys/vm/overcommit_memory may limit it");
}

std::byte* map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

// `bytes` (a multiple of the page) that begin on a huge page's boundary: map a huge page more, cut off both ends. The
// length is not rounded up to huge pages: what is left over at the end lies on small ones and costs no memory unused.
std::byte* map_huge(std::size_t bytes) {
  std::byte* whole = map(bytes + kHugePageBytes);
  if (whole == nullptr) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(whole);
  const std::size_t before = round_up(start, kHugePageBytes) - start;
  if (before > 0) munmap(whole, before);
  munmap(whole + before + bytes, kHugePageBytes - before);
  // Advice: where huge pages are switched off, small ones serve as well, a few percent slower.
  madvise(whole + before, bytes, MADV_HUGEPAGE);
  return whole + before;
}

}  // namespace

Allocation allocate_host(std::size_t bytes) {
  if (bytes == 0) return {};
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) - 2 * kHugePageBytes) refuse(bytes, ENOMEM);
  const std::size_t mapped = round_up(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  std::byte* data = bytes >= kHugePageBytes ? map_huge(mapped) : map(mapped);
  if (data == nullptr) refuse(bytes, errno);
  return {data, bytes, [mapped](std::byte* address, std::size_t) { munmap(address, mapped); }};
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
