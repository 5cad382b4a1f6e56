// ElementType: a type that a safetensors file can name, with its size in bits (4- and 6-bit floats are packed).
//
//   element_type_of("BF16") == ElementType::kBF16      bits_of(ElementType::kBF16) == 16
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "zero/base/numbers/dtype.h"

namespace zero {

enum class ElementType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view name_of(ElementType type);
int bits_of(ElementType type);
std::optional<ElementType> element_type_of(std::string_view name);  // empty: no such type
// Returns zero.cpp's type for an element type; empty: parameters cannot have it.
constexpr std::optional<DType> dtype_of(ElementType type) {
  if (type == ElementType::kF32) return DType::kFloat32;
  if (type == ElementType::kBF16) return DType::kBFloat16;
  if (type == ElementType::kF16) return DType::kFloat16;
  return std::nullopt;
}
constexpr ElementType element_type_of(DType dtype) {
  return dtype == DType::kFloat32    ? ElementType::kF32
         : dtype == DType::kBFloat16 ? ElementType::kBF16
                                     : ElementType::kF16;
}

}  // namespace zero
