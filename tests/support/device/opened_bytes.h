// OpenedBytes: bytes of sealed memory that the host may access for now, because a kernel's call names them.
//
//   OpenedBytes opened(parts);
//   kernel.host(arguments);                            // accesses to other pages, and writes to read-only ones, fault
//   if (const std::byte* at = opened.close()) ...        // it wrote `at`, which the call does not name
//
// Meanwhile the other bytes in a page are 0xFF (a NaN). Code that reads them computes other bits, and close() finds and
// undoes writes. Local; one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/support/device/sealed_memory.h"

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

  // Closes the bytes. Returns the sealed address of an unnamed byte that was written; nullptr if there is none.
  const std::byte* close();

 private:
  // A page that is named only in part.
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
