// OpenedBytes: bytes of sealed memory that the host may touch for now, because a kernel's host code named them.
//
//   OpenedBytes opened(parts);
//   kernel.host(arguments);                              // a page that it did not name faults, read-only ones at a write
//   if (const std::byte* at = opened.close()) ...        // it wrote `at`, which it did not name
//
// Within a page the other bytes are 0xFF (a NaN) meanwhile: code that reads them computes other bits, and a write is
// found when the bytes are closed, and undone. Local; one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "zero/device/sealed_memory.h"

namespace zero {

class OpenedBytes {
 public:
  struct Part {
    const SealedMemory* memory;
    std::span<const std::byte> bytes;  // sealed addresses
    bool writes;
  };

  explicit OpenedBytes(std::vector<Part> parts);
  OpenedBytes(const OpenedBytes&) = delete;
  ~OpenedBytes() { close(); }

  // The sealed address of a byte that was written and not named; nullptr where there is none.
  const std::byte* close();

 private:
  // A page of which a part is named.
  struct Edge {
    std::span<const std::byte> page;
    std::byte* own;
    std::vector<std::byte> before;
    std::vector<bool> named;
  };
  void add_edge(const Part& part, std::span<const std::byte> page);

  std::vector<Part> parts_;
  std::vector<Edge> edges_;
};

}  // namespace zero
