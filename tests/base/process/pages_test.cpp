#include "zero/base/process/pages.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace zero {
namespace {

int memory_file(std::size_t bytes) {
  const int file = memfd_create("pages_test", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
  return file;
}

bool on_huge_boundary(const Allocation& pages) {
  return reinterpret_cast<std::uintptr_t>(pages.data()) % kHugePageBytes == 0;
}

// KiB of this mapping that the kernel reports as huge pages.
std::int64_t huge_kib(const std::byte* begin) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  std::int64_t sum = 0;
  while (std::getline(maps, line)) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2) {
      inside = from == reinterpret_cast<std::uintptr_t>(begin);
    } else if (inside && line.starts_with("ShmemPmdMapped:")) {
      sum += std::stoll(line.substr(15));
    }
  }
  return sum;
}

TEST(Pages, PrivatePagesAreZeroAndAligned) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kHugePageBytes, 3 * kHugePageBytes + 17}) {
    const Allocation pages = map_private(bytes);
    ASSERT_EQ(pages.size(), bytes);
    EXPECT_TRUE(std::ranges::all_of(pages.bytes(), [](std::byte b) { return b == std::byte{0}; }));
    if (bytes >= kHugePageBytes) {
      EXPECT_TRUE(on_huge_boundary(pages));
    }
    pages.bytes().back() = std::byte{1};
  }
}

TEST(Pages, TooManyPagesSetErrno) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - kHugePageBytes, SIZE_MAX / 2}) {
    errno = 0;
    EXPECT_FALSE(map_private(bytes));
    EXPECT_EQ(errno, ENOMEM);
  }
}

TEST(Pages, ReservedAddressesBecomeWritablePages) {
  const Allocation reserved = reserve_addresses(std::size_t{1} << 40);
  ASSERT_TRUE(reserved);
  const auto part = reserved.bytes().subspan(kHugePageBytes, kHugePageBytes);
  ASSERT_TRUE(make_writable(part));
  part.front() = part.back() = std::byte{1};
  EXPECT_EQ(part[1], std::byte{0});
}

TEST(Pages, RefusedSharedMappingGivesTheReason) {
  errno = 0;
  EXPECT_FALSE(map_shared(-1, 3 * kHugePageBytes, true));
  EXPECT_EQ(errno, EBADF);
}

TEST(Pages, SharedMappingsShowTheSameBytes) {
  const std::size_t bytes = 4 * kHugePageBytes + 4097;
  const int file = memory_file(bytes);
  const Allocation mine = map_shared(file, bytes, true);
  const bool huge = use_huge_pages(mine.bytes());
  const Allocation theirs = map_shared(file, bytes, false);
  close(file);
  ASSERT_TRUE(on_huge_boundary(mine));
  ASSERT_TRUE(on_huge_boundary(theirs));
  std::ranges::fill(mine.bytes(), std::byte{7});
  EXPECT_TRUE(std::ranges::equal(theirs.bytes(), mine.bytes()));
  if (huge) {
    EXPECT_EQ(huge_kib(mine.data()), 4 * 2048);
  }
}

TEST(Pages, MappingWithoutHugePagesHasNone) {
  const int file = memory_file(4096);
  const Allocation small = map_shared(file, 4096, true);
  close(file);
  EXPECT_FALSE(use_huge_pages(small.bytes()));
}

}  // namespace
}  // namespace zero
