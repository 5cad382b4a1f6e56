// The element types that parameters and gradients have, and the conversions between them.
//
// bf16 is stored as its 16 bits; rounding is to nearest, ties to even, and a NaN stays a (quiet) NaN, as in torch.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero {

enum class DType : std::uint8_t { kFloat32, kBFloat16 };

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}
constexpr std::string_view name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "fp32" : "bf16";
}

using BFloat16Bits = std::uint16_t;

inline float to_float(BFloat16Bits bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline BFloat16Bits to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<BFloat16Bits>((bits >> 16) | 0x0040u);
  return static_cast<BFloat16Bits>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace zero
