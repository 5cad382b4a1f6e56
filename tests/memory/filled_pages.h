// filled_pages(): page-aligned memory whose contents differ between blocks.
#pragma once

#include <cstring>
#include <span>

#include "zero/memory/account/host_memory.h"

namespace zero {

inline Allocation filled_pages(std::size_t bytes, std::uint64_t seed) {
  Allocation pages = allocate_host(bytes);
  std::uint64_t word = seed * 0x9e3779b97f4a7c15;  // Knuth's generator below makes no two equal words in a block
  for (std::uint64_t& each : std::span(reinterpret_cast<std::uint64_t*>(pages.data()), bytes / sizeof(word)))
    each = word = word * 6364136223846793005 + 1442695040888963407;
  return pages;
}

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace zero
