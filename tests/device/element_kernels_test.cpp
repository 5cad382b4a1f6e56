#include "zero/device/element_kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "zero/device/host_device.h"

namespace zero {
namespace {

template <typename T>
const std::byte* bytes_of(const std::vector<T>& elements) {
  return reinterpret_cast<const std::byte*>(elements.data());
}
template <typename T>
std::byte* bytes_of(std::vector<T>& elements) {
  return reinterpret_cast<std::byte*>(elements.data());
}

TEST(ElementKernels, ACastRoundsToTheNearest) {
  const std::vector<float> from{1.0F, 1.00390625F, -3.5F};  // the second is between two bf16 numbers
  std::vector<BFloat16Bits> to(3);
  cast(HostDevice::instance(), Lane::kCompute,
       {.from = bytes_of(from), .to = bytes_of(to), .to_dtype = DType::kBFloat16, .numel = 3});
  EXPECT_EQ(to_float(to[0]), 1.0F);
  EXPECT_EQ(to_float(to[1]), 1.0F);
  EXPECT_EQ(to_float(to[2]), -3.5F);
}

TEST(ElementKernels, CastToSameTypeKeepsBits) {
  const std::vector<float> from{0.1F, -0.0F};
  std::vector<float> to(2);
  cast(HostDevice::instance(), Lane::kCompute, {.from = bytes_of(from), .to = bytes_of(to), .numel = 2});
  EXPECT_EQ(std::memcmp(to.data(), from.data(), 8), 0);
}

// Whole vectors and remaining elements equal rounded_to() and to_float() of single elements, for all pairs of types.
TEST(ElementKernels, SumsAndRoundingsMatchSingleElements) {
  const auto value = [](std::int64_t i) {
    constexpr float kSpecial[] = {INFINITY, -INFINITY, NAN, -0.0F, 1e-40F, -3e-42F, 6e-8F, 65504.0F, 65520.0F, 3e38F};
    return i % 3 == 0 ? kSpecial[i / 3 % std::ssize(kSpecial)]
                      : std::ldexp(std::sin(static_cast<float>(i)), i % 40 - 20);
  };
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (const std::int64_t numel : {0, 1, 15, 33, 1000}) {
    for (const DType from : kTypes) {
      for (const DType to : kTypes) {
        with_type_of(from, [&]<typename From>(std::type_identity<From>) {
          with_type_of(to, [&]<typename To>(std::type_identity<To>) {
            std::vector<From> added;
            std::vector<To> sums;
            for (std::int64_t i = 0; i < numel; ++i) {
              added.push_back(rounded_to<From>(value(7 * i + 2)));
              sums.push_back(rounded_to<To>(value(i)));
            }
            const std::vector<To> before = sums;
            add(HostDevice::instance(), Lane::kReduce,
                {.from = bytes_of(added), .from_dtype = from, .to = bytes_of(sums), .to_dtype = to, .numel = numel});
            for (std::size_t i = 0; i < sums.size(); ++i) {
              const float expected = to_float(rounded_to<To>(to_float(before[i]) + to_float(added[i])));
              EXPECT_TRUE(same(to_float(sums[i]), expected)) << i << ": " << to_float(sums[i]) << ", " << expected;
            }
          });
        });
      }
      std::vector<float> values, before;
      for (std::int64_t i = 0; i < numel; ++i) before.push_back(value(i));
      values = before;
      round_to(HostDevice::instance(), Lane::kReduce, from, values);
      with_type_of(from, [&]<typename T>(std::type_identity<T>) {
        for (std::size_t i = 0; i < values.size(); ++i)
          EXPECT_TRUE(same(values[i], to_float(rounded_to<T>(before[i])))) << i << ": " << before[i];
      });
    }
  }
}

TEST(ElementKernels, Bf16SumRoundsOnceFromFp32) {
  const std::vector<float> from{1.00390625F};
  std::vector<BFloat16Bits> to{to_bfloat16(1.0F)};
  add(HostDevice::instance(), Lane::kReduce,
      {.from = bytes_of(from), .to = bytes_of(to), .to_dtype = DType::kBFloat16, .numel = 1});
  EXPECT_EQ(to_float(to[0]), 2.0F);  // from 2.00390625, between the bf16 numbers 2 and 2.015625
}

}  // namespace
}  // namespace zero
