// prefetch_to_l2(): prefetches the memory line at `address` into the second cache. A prefetch into the first cache
// would compete with loads for a dozen fill buffers, and made passes over four arrays a third slower. An address beyond
// an array is allowed, because nothing is read. GCC 12 drops some of the calls, because it considers this function to
// have no effect. With all calls kept (always_inline) most rules are no faster, and Adafactor is slower. Local.
#pragma once

namespace zero {

inline void prefetch_to_l2(const void* address) {
  constexpr int kToRead = 0, kSecondCache = 2;
  __builtin_prefetch(address, kToRead, kSecondCache);
}

}  // namespace zero
