#include "zero/checkpoint/safetensors/element_type.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr int kNumTypes = static_cast<int>(ElementType::kU64) + 1;

TEST(ElementType, NamesLeadBackToTypes) {
  for (int i = 0; i < kNumTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_of(name_of(type)), type) << name_of(type);
  }
}

TEST(ElementTypeOnAnyDevice, HasTheBitsOfItsName) {
  EXPECT_EQ(bits_of(ElementType::kF4), 4);
  EXPECT_EQ(bits_of(ElementType::kBool), 8);
  EXPECT_EQ(bits_of(ElementType::kBF16), 16);
  EXPECT_EQ(bits_of(ElementType::kF32), 32);
  EXPECT_EQ(bits_of(ElementType::kC64), 64);
}

TEST(ElementType, UnknownNamesHaveNone) {
  for (const char* const name : {"", "f32", "F32 ", "FLOAT", "F128", "U63"})
    EXPECT_FALSE(element_type_of(name).has_value()) << name;
}

TEST(ElementType, ParameterTypesHaveOne) {
  EXPECT_EQ(element_type_of(DType::kFloat32), ElementType::kF32);
  EXPECT_EQ(element_type_of(DType::kBFloat16), ElementType::kBF16);
  EXPECT_EQ(element_type_of(DType::kFloat16), ElementType::kF16);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    EXPECT_EQ(bits_of(element_type_of(dtype)), 8 * static_cast<int>(size_of(dtype)));
}

}  // namespace
}  // namespace zero
