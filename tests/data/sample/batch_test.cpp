#include "app/data/sample/batch.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

// The array has as many values as its shape.
TEST(Array, ResetFillsItsShape) {
  Array array;
  EXPECT_EQ(array.reset<float>({2, 3}).size(), 6u);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array.reset<float>({0, 3}).size(), 0u);
  EXPECT_EQ(array.reset<float>({}).size(), 1u);
}

TEST(Array, ResetMayChangeTheType) {
  Array array;
  array.reset<float>({4});
  array.reset<std::int64_t>({2})[1] = 7;
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(array.values), (std::vector<std::int64_t>{0, 7}));
}

TEST(Array, ResetKeepsItsMemory) {
  Array array;
  const auto* const data = array.reset<std::int64_t>({8, 8}).data();
  array.reset<std::int64_t>({3, 8});
  EXPECT_EQ(array.reset<std::int64_t>({8, 8}).data(), data);
}

}  // namespace
}  // namespace zero
