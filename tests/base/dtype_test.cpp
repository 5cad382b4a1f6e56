#include "zero/base/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kFloat32), 4U);
  EXPECT_EQ(size_of(DType::kBFloat16), 2U);
  EXPECT_EQ(name_of(DType::kFloat32), "fp32");
  EXPECT_EQ(name_of(DType::kBFloat16), "bf16");
}

TEST(DType, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto from = static_cast<BFloat16Bits>(bits);
    const bool signalling = std::isnan(to_float(from)) && (bits & 0x0040U) == 0;
    ASSERT_EQ(to_bfloat16(to_float(from)), signalling ? from | 0x0040U : from) << bits;
  }
}

// Between two neighbours of bf16 lie 65,536 floats; the nearer one is taken, and in the middle the even one.
TEST(DType, RoundingIsToNearestAndTiesGoToEven) {
  for (const std::uint32_t low : {0x0000U, 0x0001U, 0x3f80U, 0x3f81U, 0x7f7eU, 0xbf80U, 0xc2c7U}) {
    const auto at = [&](std::uint32_t fraction) { return to_bfloat16(std::bit_cast<float>((low << 16) + fraction)); };
    EXPECT_EQ(at(0x7fff), low);
    EXPECT_EQ(at(0x8000), low % 2 == 0 ? low : low + 1);
    EXPECT_EQ(at(0x8001), low + 1);
  }
}

TEST(DType, TheLargestFloatRoundsToInfinity) {
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_bfloat16(-std::numeric_limits<float>::max()), 0xff80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::infinity()), 0x7f80);
}

TEST(DType, NaNStaysAQuietNaNOfItsSign) {
  // All of the payload in the low half: rounding, or cutting, would make it an infinity.
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f800001U)), 0x7fc0);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0xff800001U)), 0xffc0);
  // All ones: adding the rounding would carry into the sign and give -0.
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7fffffffU)), 0x7fff);
}

TEST(DType, SignedZerosAreKept) {
  EXPECT_EQ(to_bfloat16(0.0F), 0x0000);
  EXPECT_EQ(to_bfloat16(-0.0F), 0x8000);
}

}  // namespace
}  // namespace zero
