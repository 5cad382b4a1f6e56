// prefetch_to_l2(): asks for the line of memory at `address`, which is read soon. Not for the first cache: there it waits for
// one of a dozen places that the loads at hand want, too, and passes over four arrays took a third longer. An address
// beyond an array is allowed: nothing is read. GCC 12 drops some of the calls, because it takes this function for one
// without effect. With all calls kept (always_inline) most rules are no faster, and Adafactor is slower. Local.
#pragma once

namespace zero {

inline void prefetch_to_l2(const void* address) {
  constexpr int kToRead = 0, kSecondCache = 2;
  __builtin_prefetch(address, kToRead, kSecondCache);
}

}  // namespace zero
