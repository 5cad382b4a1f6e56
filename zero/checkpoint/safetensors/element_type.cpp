#include "zero/checkpoint/safetensors/element_type.h"

#include <array>
#include <cstddef>

namespace zero {
namespace {

struct Row {
  ElementType type;
  std::string_view name;
  int bits;
};

// In the order of the enumeration: a type is its own index.
constexpr std::array<Row, 22> kRows = {{
    {ElementType::kBool, "BOOL", 8},
    {ElementType::kF4, "F4", 4},
    {ElementType::kF6E2M3, "F6_E2M3", 6},
    {ElementType::kF6E3M2, "F6_E3M2", 6},
    {ElementType::kU8, "U8", 8},
    {ElementType::kI8, "I8", 8},
    {ElementType::kF8E4M3, "F8_E4M3", 8},
    {ElementType::kF8E5M2, "F8_E5M2", 8},
    {ElementType::kF8E8M0, "F8_E8M0", 8},
    {ElementType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {ElementType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {ElementType::kI16, "I16", 16},
    {ElementType::kU16, "U16", 16},
    {ElementType::kF16, "F16", 16},
    {ElementType::kBF16, "BF16", 16},
    {ElementType::kI32, "I32", 32},
    {ElementType::kU32, "U32", 32},
    {ElementType::kF32, "F32", 32},
    {ElementType::kC64, "C64", 64},
    {ElementType::kF64, "F64", 64},
    {ElementType::kI64, "I64", 64},
    {ElementType::kU64, "U64", 64},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<std::size_t>(kRows[i].type) != i) return false;
  return true;
}
static_assert(in_order());

}  // namespace

std::string_view name_of(ElementType type) {
  return kRows[static_cast<std::size_t>(type)].name;
}

int bits_of(ElementType type) {
  return kRows[static_cast<std::size_t>(type)].bits;
}

std::optional<ElementType> element_type_of(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return std::nullopt;
}

}  // namespace zero
