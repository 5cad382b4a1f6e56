// DType: the element type of a parameter or gradient; with the conversions between float, bf16 and fp16.
//
//   to_float(to_float16(70000.0F))                    // infinity: the largest fp16 is 65504
//   with_type_of(dtype, [&]<typename T>(std::type_identity<T>) { ... reinterpret_cast<const T*>(bytes) ... });
//
// bf16 and fp16 are stored as 16 bits, in two separate types, so one is never read as the other. Rounding is to
// nearest, ties to even. fp16 is IEEE's binary16 with subnormals and infinities, the bits of torch's at::Half. A NaN
// becomes a quiet NaN of the same sign; in fp16 it is 0x7e00 or 0xfe00.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace zero {

enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}
constexpr std::string_view name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "fp32" : dtype == DType::kBFloat16 ? "bf16" : "fp16";
}

enum class BFloat16Bits : std::uint16_t {};
enum class Float16Bits : std::uint16_t {};

constexpr float to_float(std::same_as<float> auto value) {
  return value;
}

constexpr float to_float(BFloat16Bits bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Multiplication changes the exponent, and makes a signalling NaN quiet; subtraction converts a subnormal.
constexpr float to_float(Float16Bits bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16, twice = word + word;
  const float normal = std::bit_cast<float>((twice >> 4) + 0x70000000U) * 0x1p-112F;
  const float subnormal = std::bit_cast<float>((twice >> 17) | 0x3f000000U) - 0.5F;
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(twice < 0x08000000U ? subnormal : normal);
  return std::bit_cast<float>((word & 0x80000000U) | magnitude);
}

constexpr BFloat16Bits to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<BFloat16Bits>((bits >> 16) | 0x0040U);
  return static_cast<BFloat16Bits>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Adding a power of two rounds: the last bit of that sum has the value of the result's last bit. The first
// multiplication turns values that are too large into infinity.
constexpr Float16Bits to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000U, twice = bits + bits;
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffU) * 0x1p112F * 0x1p-110F;
  const std::uint32_t exponent = twice & 0xff000000U;
  const std::uint32_t bias = exponent < 0x71000000U ? 0x71000000U : exponent;
  const auto rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>((bias >> 1) + 0x07800000U) + magnitude);
  const std::uint32_t finite = ((rounded >> 13) & 0x7c00U) + (rounded & 0x0fffU);
  return static_cast<Float16Bits>((sign >> 16) | (twice > 0xff000000U ? 0x7e00U : finite));
}

// Returns `value` as an element of type T.
template <typename T>
constexpr T rounded_to(float value) {
  if constexpr (std::is_same_v<T, BFloat16Bits>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, Float16Bits>) {
    return to_float16(value);
  } else {
    static_assert(std::is_same_v<T, float>);
    return value;
  }
}

// Calls use(std::type_identity<T>{}) with the storage type T of `dtype`.
template <typename Use>
constexpr decltype(auto) with_type_of(DType dtype, Use&& use) {
  switch (dtype) {
    case DType::kBFloat16:
      return use(std::type_identity<BFloat16Bits>{});
    case DType::kFloat16:
      return use(std::type_identity<Float16Bits>{});
    case DType::kFloat32:
      break;
  }
  return use(std::type_identity<float>{});
}

// Sets out[i] = in[i] for `numel` elements, rounded if `out` has fewer bits, with the bits of rounded_to(). Arrays need
// only the alignment of their type, and must not overlap. Local. For a single element call rounded_to().
void convert_elements(const std::byte* in, DType in_dtype, std::byte* out, DType out_dtype, std::int64_t numel);

}  // namespace zero
