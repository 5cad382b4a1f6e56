#include "zero/memory/disk/page_sums.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zero/base/error/check.h"
#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

constexpr std::size_t kSummedPage = 4096;

// Never returns 0, which means "not noted".
std::uint64_t sum_of(const std::byte* page) {
  return std::max<std::uint64_t>(XXH3_64bits(page, kSummedPage), 1);
}

}  // namespace

PageSums::PageSums(std::int64_t bytes)
    : memory_(allocate_host(static_cast<std::size_t>(bytes) / kSummedPage * sizeof(std::uint64_t))) {}

std::span<std::uint64_t> PageSums::sums_of(std::int64_t place, std::size_t bytes) const {
  const std::size_t first = static_cast<std::size_t>(place) / kSummedPage;
  const std::span all{reinterpret_cast<std::uint64_t*>(memory_.data()), memory_.size() / sizeof(std::uint64_t)};
  ZERO_CHECK(place >= 0 && first + bytes / kSummedPage <= all.size(), "{} bytes at {} have no sums", bytes, place);
  return all.subspan(first, bytes / kSummedPage);
}

void PageSums::note(std::int64_t place, std::span<const std::byte> pages) {
  const auto sums = sums_of(place, pages.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum_of(pages.data() + i * kSummedPage);
}

std::int64_t PageSums::first_wrong(std::int64_t place, std::span<const std::byte> pages) const {
  const auto sums = sums_of(place, pages.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != sum_of(pages.data() + i * kSummedPage)) return place + static_cast<std::int64_t>(i * kSummedPage);
  }
  return -1;
}

}  // namespace zero
