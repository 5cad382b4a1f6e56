// keep_large_blocks(): large CPU tensors come from one Arena (zero/memory/account/arena.h) from now on.
//
//   zero::keep_heap();            // small blocks: glibc's heap, never trimmed
//   zero::keep_large_blocks();    // from 1 MiB on
//
// It replaces libtorch's CPU allocator for the whole process, for good, so `zero train` calls it and attach() does not.
// Best called first: tensors that exist keep the allocator they came from.
#pragma once

namespace zero {

// Local. Idempotent.
void keep_large_blocks();

}  // namespace zero
