#include "zero/base/numbers/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace zero {
namespace {

std::uint32_t bfloat16(float value) {
  return static_cast<std::uint32_t>(to_bfloat16(value));
}
std::uint32_t float16(float value) {
  return static_cast<std::uint32_t>(to_float16(value));
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kFloat32), 4U);
  EXPECT_EQ(size_of(DType::kBFloat16), 2U);
  EXPECT_EQ(name_of(DType::kFloat32), "fp32");
  EXPECT_EQ(name_of(DType::kBFloat16), "bf16");
  EXPECT_EQ(size_of(DType::kFloat16), 2U);
  EXPECT_EQ(name_of(DType::kFloat16), "fp16");
}

TEST(DType, BFloat16SurvivesFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto from = static_cast<BFloat16Bits>(bits);
    const bool signalling = std::isnan(to_float(from)) && (bits & 0x0040U) == 0;
    ASSERT_EQ(bfloat16(to_float(from)), signalling ? bits | 0x0040U : bits) << bits;
  }
}

// There are 65,536 floats between two neighbours of bf16. Each is rounded to the nearer one, and the middle to the even
// one.
TEST(DType, RoundsToNearestEven) {
  for (const std::uint32_t low : {0x0000U, 0x0001U, 0x3f80U, 0x3f81U, 0x7f7eU, 0xbf80U, 0xc2c7U}) {
    const auto at = [&](std::uint32_t fraction) { return bfloat16(std::bit_cast<float>((low << 16) + fraction)); };
    EXPECT_EQ(at(0x7fff), low);
    EXPECT_EQ(at(0x8000), low % 2 == 0 ? low : low + 1);
    EXPECT_EQ(at(0x8001), low + 1);
  }
}

TEST(DType, TheLargestFloatRoundsToInfinity) {
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()), 0x7f80U);
  EXPECT_EQ(bfloat16(-std::numeric_limits<float>::max()), 0xff80U);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::infinity()), 0x7f80U);
}

TEST(DType, KeepsQuietNaNAndSign) {
  // The payload is only in the low half. Rounding or truncation would give an infinity.
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0x7f800001U)), 0x7fc0U);
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0xff800001U)), 0xffc0U);
  // All bits are ones. The rounding would carry into the sign and give -0.
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0x7fffffffU)), 0x7fffU);
}

TEST(DType, SignedZerosAreKept) {
  EXPECT_EQ(bfloat16(0.0F), 0x0000U);
  EXPECT_EQ(bfloat16(-0.0F), 0x8000U);
}

// ---- fp16, against its definition in double, which represents each of its values exactly

double value_of(std::uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 31), mantissa = static_cast<int>(half & 1023);
  const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000U) != 0 ? -magnitude : magnitude;
}

// Searches the list of all values for the nearest, or for the even one if two are equally near. From the middle between
// the largest value and the next step on, the result is infinity.
std::uint32_t nearest_half(float value) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00U;
  std::uint32_t low = 0, high = 0x7bff;  // values increase with their bits
  while (low < high) {
    const std::uint32_t middle = (low + high + 1) / 2;
    value_of(middle) <= magnitude ? low = middle : high = middle - 1;
  }
  if (low == 0x7bff) return sign | low;
  const double below = magnitude - value_of(low), above = value_of(low + 1) - magnitude;
  return sign | (above < below || (above == below && low % 2 == 1) ? low + 1 : low);
}

TEST(Float16, EveryValueSurvivesFloat) {
  for (std::uint32_t half = 0; half <= 0xffff; ++half) {
    const float value = to_float(static_cast<Float16Bits>(half));
    if ((half & 0x7fffU) > 0x7c00U) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      ASSERT_TRUE(std::isnan(value) && (bits & 0x00400000U) != 0) << half << " is a quiet NaN";
      ASSERT_EQ(float16(value), (half & 0x8000U) | 0x7e00U) << half;
    } else {
      ASSERT_EQ(static_cast<double>(value), value_of(half)) << half;
      ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
      ASSERT_EQ(float16(value), half);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  std::mt19937 random(5);
  for (int i = 0; i < 400'000; ++i) {
    // A third has random bits, a third is in fp16's range, and a third is at or beside the middle of two neighbours.
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 1) bits = (bits & 0x80ffffffU) | (0x32000000U + (random() % 22 << 24));
    if (i % 3 == 2) {
      const std::uint32_t half = random() % 0x7bff;
      const double middle = (value_of(half) + value_of(half + 1)) / 2;
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(middle)) + random() % 3 - 1;
    }
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(float16(value), nearest_half(value)) << std::hex << bits;
  }
}

TEST(Float16, OverflowIsInfiniteUnderflowIsZero) {
  EXPECT_EQ(float16(65504.0F), 0x7bffU);
  EXPECT_EQ(float16(65519.99F), 0x7bffU);
  EXPECT_EQ(float16(65520.0F), 0x7c00U);
  EXPECT_EQ(float16(-std::numeric_limits<float>::infinity()), 0xfc00U);
  EXPECT_EQ(float16(0x1p-24F), 0x0001U) << "the smallest";
  EXPECT_EQ(float16(0x1p-25F), 0x0000U) << "half of it: a tie";
  EXPECT_EQ(float16(-0x1.000002p-25F), 0x8001U);
  EXPECT_EQ(float16(-0.0F), 0x8000U);
  EXPECT_EQ(float16(std::numeric_limits<float>::denorm_min()), 0x0000U);
}

TEST(Float16, KeepsQuietNaNAndSign) {
  EXPECT_EQ(float16(std::bit_cast<float>(0x7f800001U)), 0x7e00U);
  EXPECT_EQ(float16(std::bit_cast<float>(0xffffffffU)), 0xfe00U);
}

TEST(DType, ConvertsElementsBetweenTypes) {
  const std::vector<float> values{1.0F, -0.1F, 70000.0F, 1e-6F};
  std::vector<std::uint16_t> halves(4);
  std::vector<float> back(4);
  const auto bytes = [](auto& list) { return reinterpret_cast<std::byte*>(list.data()); };
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, bytes(halves), DType::kFloat16,
                   4);
  convert_elements(bytes(halves), DType::kFloat16, bytes(back), DType::kFloat32, 4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(back[i], to_float(to_float16(values[i])));
}

// Elements of every kind, as bytes. 16-bit types: all values. fp32: a third has random bits (with NaNs), and a third is
// around fp16's range with its subnormals. A third is at or beside the middle of two neighbours of bf16 or fp16. Also
// the ends of the range.
std::vector<std::byte> elements_of_every_kind(DType dtype) {
  std::vector<std::uint32_t> bits{0, 0x80000000U, 0x7f800000U, 0xff800000U, 0x7f800001U, 0xff800001U, 0x7fc00000U};
  for (const std::uint32_t more : {0x7fffffffU, 0xffffffffU, 1U, 0x007fffffU, 0x807fffffU, 0x7f7fffffU, 0xff7fffffU})
    bits.push_back(more);
  std::mt19937 random(9);
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    std::uint32_t one = static_cast<std::uint32_t>(random());
    if (i % 3 == 1) one = (one & 0x80ffffffU) | (0x32000000U + (random() % 22 << 24));
    if (i % 3 == 2) one = (one & (i % 2 == 0 ? 0xffff8000U : 0xfffff000U)) + random() % 3 - 1;
    bits.push_back(dtype == DType::kFloat32 ? one : i);
  }
  std::vector<std::byte> bytes(bits.size() * size_of(dtype));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto half = static_cast<std::uint16_t>(bits[i] >> (i < 14 ? 16 : 0));
    const void* const from = dtype == DType::kFloat32 ? static_cast<const void*>(&bits[i]) : &half;
    std::memcpy(bytes.data() + i * size_of(dtype), from, size_of(dtype));
  }
  return bytes;
}

constexpr std::byte kUntouched{0x5a};

// Converts `count` elements from `first` on one by one. The element after them must not change.
std::vector<std::byte> converted_one_by_one(const std::vector<std::byte>& in, DType from, DType to, std::size_t first,
                                            std::size_t count) {
  std::vector<std::byte> out((count + 1) * size_of(to), kUntouched);
  with_type_of(from, [&]<typename In>(std::type_identity<In>) {
    with_type_of(to, [&]<typename Out>(std::type_identity<Out>) {
      for (std::size_t i = 0; i < count; ++i) {
        In value;
        std::memcpy(&value, in.data() + (first + i) * sizeof(In), sizeof(In));
        const Out rounded = rounded_to<Out>(to_float(value));
        std::memcpy(out.data() + i * sizeof(Out), &rounded, sizeof(Out));
      }
    });
  });
  return out;
}

TEST(DType, InstructionSetsConvertToSameBits) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const DType from : kTypes) {
      const std::vector<std::byte> in = elements_of_every_kind(from);
      for (const DType to : kTypes) {
        SCOPED_TRACE(testing::Message() << hwy::TargetName(target) << ", " << name_of(from) << " to " << name_of(to));
        const auto expect_the_same = [&](std::size_t first, std::size_t count) {
          std::vector<std::byte> out((count + 1) * size_of(to), kUntouched);
          convert_elements(in.data() + first * size_of(from), from, out.data(), to, static_cast<std::int64_t>(count));
          EXPECT_TRUE(out == converted_one_by_one(in, from, to, first, count)) << count << " elements from " << first;
        };
        expect_the_same(0, in.size() / size_of(from));
        for (std::size_t count = 0; count < 67; ++count) expect_the_same(1 + 991 * count, count);  // all tails
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace zero
