#include "zero/device/element_kernels.h"

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
  const std::vector<float> from{1.0F, 1.00390625F, -3.5F};  // the second lies between two bf16
  std::vector<BFloat16Bits> to(3);
  cast(HostDevice::instance(), Lane::kCompute,
       {.from = bytes_of(from), .to = bytes_of(to), .to_dtype = DType::kBFloat16, .numel = 3});
  EXPECT_EQ(to_float(to[0]), 1.0F);
  EXPECT_EQ(to_float(to[1]), 1.0F);
  EXPECT_EQ(to_float(to[2]), -3.5F);
}

TEST(ElementKernels, ACastBetweenEqualTypesKeepsTheBits) {
  const std::vector<float> from{0.1F, -0.0F};
  std::vector<float> to(2);
  cast(HostDevice::instance(), Lane::kCompute, {.from = bytes_of(from), .to = bytes_of(to), .numel = 2});
  EXPECT_EQ(std::memcmp(to.data(), from.data(), 8), 0);
}

TEST(ElementKernels, ASumInBf16IsMadeInFp32AndRoundedOnce) {
  const std::vector<float> from{1.00390625F};
  std::vector<BFloat16Bits> to{to_bfloat16(1.0F)};
  add(HostDevice::instance(), Lane::kReduce,
      {.from = bytes_of(from), .to = bytes_of(to), .to_dtype = DType::kBFloat16, .numel = 1});
  EXPECT_EQ(to_float(to[0]), 2.0F);  // of 2.00390625, whose neighbours in bf16 are 2 and 2.015625
}

}  // namespace
}  // namespace zero
