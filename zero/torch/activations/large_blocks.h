// keep_large_blocks(): allocates large CPU tensors in one Arena (zero/memory/account/arena.h) from now on.
//
//   zero::keep_heap();            // small blocks: glibc's heap, never trimmed
//   zero::keep_large_blocks();    // from 1 MiB on
//
// It permanently replaces libtorch's CPU allocator for the whole process, so `zero train` calls it and attach() does
// not. Call it first: existing tensors keep their allocator.
#pragma once

namespace zero {

// Local. Idempotent.
void keep_large_blocks();

}  // namespace zero
