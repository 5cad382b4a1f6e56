// load_block(), store_block(): move a thread's consecutive elements in 16-byte packs if they are aligned to 16 bytes.
//
//   float values[16];
//   load_block(array + first, values);
#pragma once

#include <cstdint>

#include "plugins/cuda/bodies/rounded.h"

namespace zero::bodies {

template <typename T>
struct alignas(16) Pack {
  static constexpr int kNumel = 16 / sizeof(T);
  T values[kNumel];
};

__device__ inline bool begins_a_pack(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

template <typename T, int kNumel>
__device__ void load_block(const T* from, T (&to)[kNumel]) {
  static_assert(kNumel % Pack<T>::kNumel == 0);
  if (!begins_a_pack(from)) {
    ZERO_UNROLL
    for (int i = 0; i < kNumel; ++i) to[i] = from[i];
    return;
  }
  ZERO_UNROLL
  for (int pack = 0; pack < kNumel / Pack<T>::kNumel; ++pack) {
    const Pack<T> loaded = reinterpret_cast<const Pack<T>*>(from)[pack];
    ZERO_UNROLL
    for (int i = 0; i < Pack<T>::kNumel; ++i) to[pack * Pack<T>::kNumel + i] = loaded.values[i];
  }
}

template <typename T, int kNumel>
__device__ void store_block(const T (&from)[kNumel], T* to) {
  static_assert(kNumel % Pack<T>::kNumel == 0);
  if (!begins_a_pack(to)) {
    ZERO_UNROLL
    for (int i = 0; i < kNumel; ++i) to[i] = from[i];
    return;
  }
  ZERO_UNROLL
  for (int pack = 0; pack < kNumel / Pack<T>::kNumel; ++pack) {
    Pack<T> stored;
    ZERO_UNROLL
    for (int i = 0; i < Pack<T>::kNumel; ++i) stored.values[i] = from[pack * Pack<T>::kNumel + i];
    reinterpret_cast<Pack<T>*>(to)[pack] = stored;
  }
}

}  // namespace zero::bodies
