// Patterns: bytes and floats that depend on rank, block and index, so misplaced values are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "zero/base/numbers/dtype.h"

namespace zero {

inline std::uint32_t mix(std::uint32_t a, std::uint32_t b) {
  std::uint32_t h = a * 0x9e3779b1u + b * 0x85ebca77u + 0x165667b1u;
  h = (h ^ (h >> 15)) * 0x2c1b3c6du;
  return h ^ (h >> 13);
}

// Writes four bytes at a time, because the tests use many bytes.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> data(bytes);
  std::byte* const begin = data.data();
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::uint32_t word = mix(seed, static_cast<std::uint32_t>(i));
    std::memcpy(begin + i, &word, bytes - i < 4 ? bytes - i : 4);
  }
  return data;
}

inline bool holds_pattern(std::span<const std::byte> data, std::uint32_t seed) {
  const std::byte* const begin = data.data();
  const std::size_t bytes = data.size();
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::uint32_t word = mix(seed, static_cast<std::uint32_t>(i));
    if (std::memcmp(begin + i, &word, bytes - i < 4 ? bytes - i : 4) != 0) return false;
  }
  return true;
}

// Values of very different size, so the order of additions changes the bits.
inline float pattern_value(std::uint32_t seed, std::size_t i) {
  const std::uint32_t h = mix(seed, static_cast<std::uint32_t>(i));
  const float fraction = static_cast<float>(h & 0xffff) / 65536.0f - 0.5f;
  return fraction * static_cast<float>(1u << ((h >> 16) % 20));
}

// `numel` such values in the memory format of `dtype`.
inline std::vector<std::byte> pattern_values(std::size_t numel, DType dtype, std::uint32_t seed) {
  std::vector<std::byte> data(numel * size_of(dtype));
  for (std::size_t i = 0; i < numel; ++i) {
    const float value = pattern_value(seed, i);
    with_type_of(
        dtype, [&]<typename T>(std::type_identity<T>) { reinterpret_cast<T*>(data.data())[i] = rounded_to<T>(value); });
  }
  return data;
}

inline float value_at(std::span<const std::byte> data, DType dtype, std::size_t i) {
  return with_type_of(
      dtype, [&]<typename T>(std::type_identity<T>) { return to_float(reinterpret_cast<const T*>(data.data())[i]); });
}

}  // namespace zero
