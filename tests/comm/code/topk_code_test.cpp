#include "zero/comm/code/topk_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using Floats = std::vector<float>;

std::vector<std::byte> taken_from(Floats& elements, double share) {
  std::vector<std::byte> message(static_cast<std::size_t>(topk_bytes(std::ssize(elements), share)));
  take_largest(elements, share, message);
  return message;
}

Floats sent_of(const std::vector<std::byte>& message, double share, std::size_t numel) {
  Floats sum(numel);
  add_largest(message, share, sum);
  return sum;
}

// Elements of all magnitudes, many of them twice.
Floats some_elements(std::size_t numel) {
  Floats values(numel);
  for (std::size_t i = 0; i < numel; ++i) values[i] = std::ldexp(std::sin(static_cast<float>(i % 700)), i % 13);
  return values;
}

// Sorts each block. The sort is stable, so the first of equal elements comes first.
Floats largest_by_sorting(const Floats& values, double share) {
  Floats kept(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kTopKBlock) {
    const std::size_t end = std::min(values.size(), begin + kTopKBlock);
    std::vector<std::size_t> places(end - begin);
    std::iota(places.begin(), places.end(), begin);
    std::ranges::stable_sort(places, std::ranges::greater(), [&](std::size_t i) { return std::abs(values[i]); });
    const double kept_here = std::max(1.0, std::round(share * static_cast<double>(end - begin)));
    for (std::size_t i = 0; i < static_cast<std::size_t>(kept_here); ++i) kept[places[i]] = values[places[i]];
  }
  return kept;
}

// All other elements stay in the residual.
TEST(TopKCode, KeepsTheLargestOfEachBlock) {
  for (const std::size_t numel : {1U, 7U, 1023U, 1024U, 1025U, 5000U}) {
    for (const double share : {1e-4, 0.01, 0.1, 0.5, 1.0}) {
      const Floats before = some_elements(numel), expected = largest_by_sorting(before, share);
      Floats rest = before;
      const Floats sent = sent_of(taken_from(rest, share), share, numel);
      ASSERT_EQ(sent, expected) << numel << ", " << share;
      for (std::size_t i = 0; i < numel; ++i) {
        ASSERT_TRUE(sent[i] == 0 || rest[i] == 0) << i;
        ASSERT_EQ(sent[i] + rest[i], before[i]) << i;
      }
    }
  }
}

TEST(TopKCode, TakesTheFirstOfEqualElements) {
  Floats elements(1024, -2.0F);
  const Floats sent = sent_of(taken_from(elements, 0.01), 0.01, 1024);
  for (std::size_t i = 0; i < 1024; ++i) EXPECT_EQ(sent[i], i < 10 ? -2.0F : 0.0F) << i;
}

TEST(TopKCode, FullMessageLeavesNothing) {
  Floats elements = some_elements(3000);
  const Floats before = elements;
  EXPECT_EQ(sent_of(taken_from(elements, 1), 1, 3000), before);
  EXPECT_EQ(elements, Floats(3000));
}

TEST(TopKCode, AddsMessagesInOrderInFp32) {
  const std::size_t numel = 2500;
  Floats sum(numel), expected(numel);
  for (int message = 0; message < 3; ++message) {
    Floats elements = some_elements(numel);
    for (float& element : elements) element = element * static_cast<float>(message + 1) / 3 + 1e-3F;
    add_largest(taken_from(elements, 0.3), 0.3, sum);
    const Floats before = some_elements(numel);
    for (std::size_t i = 0; i < numel; ++i)
      if (elements[i] == 0) expected[i] += before[i] * static_cast<float>(message + 1) / 3 + 1e-3F;
  }
  EXPECT_EQ(sum, expected);
}

TEST(TopKCode, TakesNonFiniteElementsFirst) {
  Floats elements = some_elements(1024);
  elements[1000] = std::numeric_limits<float>::quiet_NaN();
  elements[1001] = -std::numeric_limits<float>::infinity();
  const Floats sent = sent_of(taken_from(elements, 2.0 / 1024), 2.0 / 1024, 1024);
  EXPECT_TRUE(std::isnan(sent[1000]));
  EXPECT_EQ(sent[1001], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(elements[1000], 0);
  EXPECT_EQ(elements[1001], 0) << "the residual is finite";
}

TEST(TopKCode, ElementTakesSixBytes) {
  EXPECT_EQ(topk_bytes(1024, 0.01), 60);
  EXPECT_EQ(topk_bytes(100'000, 0.01), 6 * (97 * 10 + 7));
  EXPECT_EQ(topk_bytes(1025, 0.01), 66) << "a block of one element sends it";
  EXPECT_EQ(topk_bytes(2048, 1), 6 * 2048);
  EXPECT_EQ(topk_bytes(0, 0.5), 0);
  EXPECT_DOUBLE_EQ(topk_element_bytes(0.1), 102 * 6 / 1024.0);
}

TEST(TopKCode, RefusesPositionsBeyondTheBlock) {
  Floats elements = some_elements(100);
  std::vector<std::byte> message = taken_from(elements, 0.01);
  message[0] = std::byte{100};
  EXPECT_TRUE(says(message_of<InternalError>([&] { add_largest(message, 0.01, elements); }), "element 100 of a block"));
}

}  // namespace
}  // namespace zero
