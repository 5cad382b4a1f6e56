#include "zero/base/process/allocation.h"

#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

static_assert(!std::is_copy_constructible_v<Allocation> && std::is_nothrow_move_constructible_v<Allocation> &&
              std::is_nothrow_move_assignable_v<Allocation>);

// Lends bytes and records their return.
struct Lender {
  std::vector<std::byte> store = std::vector<std::byte>(256);
  std::vector<std::pair<std::byte*, std::size_t>> returned;
  Allocation lend(std::size_t at, std::size_t bytes) {
    return {store.data() + at, bytes, [this](std::byte* data, std::size_t size) { returned.emplace_back(data, size); }};
  }
};

TEST(Allocation, GivenBackOnce) {
  Lender lender;
  { const Allocation bytes = lender.lend(64, 128); }
  ASSERT_EQ(lender.returned.size(), 1U);
  EXPECT_EQ(lender.returned[0], std::pair(lender.store.data() + 64, std::size_t{128}));
}

TEST(Allocation, MovingHandsOverTheDuty) {
  Lender lender;
  {
    Allocation first = lender.lend(0, 64);
    const Allocation second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT: tests the moved-from object
    EXPECT_EQ(first.size(), 0U);
    EXPECT_EQ(second.bytes().data(), lender.store.data());
    EXPECT_EQ(second.bytes().size(), 64U);
  }
  EXPECT_EQ(lender.returned.size(), 1U);
}

TEST(Allocation, AssignmentReleasesTheOldOne) {
  Lender lender;
  Allocation bytes = lender.lend(0, 64);
  bytes = lender.lend(64, 32);
  ASSERT_EQ(lender.returned.size(), 1U);
  EXPECT_EQ(lender.returned[0].second, 64U);
  EXPECT_EQ(bytes.size(), 32U);
}

TEST(Allocation, AssigningToItselfKeepsIt) {
  Lender lender;
  Allocation bytes = lender.lend(0, 64);
  Allocation& same = bytes;
  bytes = std::move(same);
  EXPECT_TRUE(bytes);
  EXPECT_TRUE(lender.returned.empty());
}

TEST(Allocation, AnEmptyOneHoldsNothing) {
  const Allocation empty;
  EXPECT_FALSE(empty);
  EXPECT_TRUE(empty.bytes().empty());
}

}  // namespace
}  // namespace zero
