// BlockCutter: an allocator of small blocks that lie side by side on huge pages.
//
// A disk takes a block that lies on one huge page in one piece. On small pages it is a list of 256 pages a MiB, more
// than many devices take at once, and reading and writing are slower by half (docs/decisions/0013).
//
//   BlockCutter cut(allocate_host);
//   BlockPool pool(cut, ledger, MemoryTag::kStaging);
//
// A block that does not fit into the rest of the last huge page gets a new one; that rest is lost. A huge page is
// given back with its last block. Blocks of a huge page or more are passed through. Copies share the rest.
//
// Local; one thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "zero/base/allocation.h"

namespace zero {

class BlockCutter {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  // `allocate`: of huge pages, and of blocks as large as that.
  explicit BlockCutter(Allocator allocate);

  // Page-aligned. Throws what the allocator throws.
  Allocation operator()(std::size_t bytes);

 private:
  struct Rest {
    std::weak_ptr<Allocation> page;  // held by the blocks that are cut from it
    std::size_t begin = 0;
  };
  Allocator allocate_;
  std::shared_ptr<Rest> rest_;
};

}  // namespace zero
