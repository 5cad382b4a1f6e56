// BlockCutter: allocates small blocks side by side on huge pages.
//
//   BlockCutter cut(allocate_host);
//   BlockPool pool(cut, ledger, MemoryTag::kStaging);
//
// For a disk, a block on one huge page is a single segment. On small pages it is a list of 256 pages per MiB, more than
// many devices accept at once. Reading and writing then take half as long again (docs/decisions/0013).
//
// A block that does not fit into the rest of the last huge page gets a new page, and that rest is lost. A huge page is
// freed with its last block. Blocks of at least a huge page go to the allocator directly. Copies of a BlockCutter share
// the rest. Local; one thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "zero/base/process/allocation.h"

namespace zero {

class BlockCutter {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  // `allocate`: allocates huge pages, and blocks of at least that size.
  explicit BlockCutter(Allocator allocate);

  // Returns page-aligned memory. Throws the allocator's errors.
  Allocation operator()(std::size_t bytes);

 private:
  struct Rest {
    std::weak_ptr<Allocation> page;  // owned by the blocks that are cut from it
    std::size_t begin = 0;
  };
  Allocator allocate_;
  std::shared_ptr<Rest> rest_;
};

}  // namespace zero
