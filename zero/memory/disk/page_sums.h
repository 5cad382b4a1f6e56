// PageSums: a checksum (XXH3, 64 bits) of every page of a tier, which detects pages that return changed.
//
//   PageSums sums(disk_bytes);
//   sums.note(place, block);                        // when it is written
//   const auto wrong = sums.first_wrong(place, block);   // when it is read: -1, or the place of a page that differs
//
// Each noted page costs 8 bytes of memory; other pages cost none. A page that was never noted is wrong. Places and
// blocks are whole pages. Local; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zero/base/process/allocation.h"

namespace zero {

class PageSums {
 public:
  explicit PageSums(std::int64_t bytes);

  void note(std::int64_t place, std::span<const std::byte> pages);
  std::int64_t first_wrong(std::int64_t place, std::span<const std::byte> pages) const;

 private:
  std::span<std::uint64_t> sums_of(std::int64_t place, std::size_t bytes) const;

  Allocation memory_;
};

}  // namespace zero
