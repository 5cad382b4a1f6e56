#include "zero/base/process/pages.h"

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // the kernel may be newer than the C library's headers
#endif

namespace zero {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Maps `bytes` (whole pages) at a huge page's boundary: it reserves addresses for one more huge page, and unmaps both
// ends. Returns nullptr if refused.
std::byte* map(std::size_t bytes, int protection, int flags, int file) {
  if (bytes > SIZE_MAX - kHugePageBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  const bool aligned = bytes >= kHugePageBytes;
  if (!aligned) {
    void* data = mmap(nullptr, bytes, protection, flags, file, 0);
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
  const std::size_t taken = bytes + kHugePageBytes;
  void* whole = mmap(nullptr, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(whole);
  std::byte* begin = static_cast<std::byte*>(whole) + (round_up(start, kHugePageBytes) - start);
  std::byte* end = static_cast<std::byte*>(whole) + taken;
  if (mmap(begin, bytes, protection, flags | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(whole, taken);
    errno = error;
    return nullptr;
  }
  if (begin > whole) munmap(whole, static_cast<std::size_t>(begin - static_cast<std::byte*>(whole)));
  if (end > begin + bytes) munmap(begin + bytes, static_cast<std::size_t>(end - begin) - bytes);
  return begin;
}

Allocation owned(std::byte* data, std::size_t bytes, std::size_t mapped) {
  if (data == nullptr) return {};
  return {data, bytes, [mapped](std::byte* address, std::size_t) { munmap(address, mapped); }};
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes > SIZE_MAX - page ? SIZE_MAX : round_up(bytes, page);
}

Allocation private_pages(std::size_t bytes, int protection) {
  const std::size_t mapped = whole_pages(bytes);
  std::byte* data = map(mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  // Only advice: if huge pages are disabled, small pages also work, a few percent slower.
  if (data != nullptr && bytes >= kHugePageBytes) madvise(data, mapped, MADV_HUGEPAGE);
  return owned(data, bytes, mapped);
}

}  // namespace

Allocation map_private(std::size_t bytes) {
  return private_pages(bytes, PROT_READ | PROT_WRITE);
}

Allocation reserve_addresses(std::size_t bytes) {
  return private_pages(bytes, PROT_NONE);
}

bool make_writable(std::span<std::byte> reserved) {
  return mprotect(reserved.data(), reserved.size(), PROT_READ | PROT_WRITE) == 0;
}

Allocation map_shared(int file, std::size_t bytes, bool writable) {
  const std::size_t mapped = whole_pages(bytes);
  return owned(map(mapped, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file), bytes, mapped);
}

bool use_huge_pages(std::span<std::byte> shared) {
  const std::size_t whole = shared.size() / kHugePageBytes * kHugePageBytes;
  if (whole == 0 || reinterpret_cast<std::uintptr_t>(shared.data()) % kHugePageBytes != 0) return false;
  // Only memory with a page can become a huge page. The first one shows whether the kernel can do it at all.
  for (std::size_t at = 0; at < whole; at += kHugePageBytes) {
    *static_cast<volatile std::byte*>(shared.data() + at) = std::byte{0};
    if (madvise(shared.data() + at, kHugePageBytes, MADV_COLLAPSE) != 0) return false;
  }
  return true;
}

void drop_pages(std::span<std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t begin = round_up(address, page), end = (address + mapped.size()) / page * page;
  if (begin >= end) return;
  // Otherwise a neighbouring huge page would reach into the hole, at the next write or when the kernel compacts memory.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE);
  // MADV_REMOVE is for memory files, and is refused for private pages; MADV_DONTNEED would only unmap a file's pages.
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE) != 0)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace zero
