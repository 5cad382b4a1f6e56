#include "zero/engine/gather/gathered_unit.h"

#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

static_assert(!std::is_copy_constructible_v<GatheredUnit> && std::is_nothrow_move_constructible_v<GatheredUnit>);

struct Pins final : UnitPins {
  std::vector<int> unpinned;
  std::vector<int> written;
  void unpin(int unit) noexcept override { unpinned.push_back(unit); }
  void mark_written(int unit) override { written.push_back(unit); }
};

TEST(GatheredUnit, LetsGoWhenItEnds) {
  Pins pins;
  {
    const GatheredUnit held(pins, 4, nullptr);
    EXPECT_EQ(held.unit(), 4);
    EXPECT_TRUE(pins.unpinned.empty());
  }
  EXPECT_EQ(pins.unpinned, std::vector<int>{4});
}

TEST(GatheredUnit, MovedUnitReleasesOnce) {
  Pins pins;
  {
    GatheredUnit first(pins, 1, nullptr);
    GatheredUnit second(std::move(first));
    GatheredUnit third;
    third = std::move(second);
    EXPECT_EQ(third.unit(), 1);
    EXPECT_TRUE(pins.unpinned.empty());
  }
  EXPECT_EQ(pins.unpinned, std::vector<int>{1});
}

TEST(GatheredUnit, AssignmentLosesNeither) {
  Pins pins;
  {
    GatheredUnit one(pins, 1, nullptr);
    GatheredUnit two(pins, 2, nullptr);
    one = std::move(two);
    EXPECT_EQ(one.unit(), 2);
  }
  EXPECT_EQ(pins.unpinned.size(), 2u);
  EXPECT_NE(pins.unpinned[0], pins.unpinned[1]);
}

TEST(GatheredUnit, KnowsItsBytesAfterMoves) {
  Pins pins;
  std::byte bytes[2];
  GatheredUnit first(pins, 1, &bytes[0]);
  GatheredUnit second(pins, 2, &bytes[1]);
  second = std::move(first);
  EXPECT_EQ(second.data(), &bytes[0]);
  const GatheredUnit third(std::move(second));
  EXPECT_EQ(third.data(), &bytes[0]);
}

TEST(GatheredUnit, TellsThatItIsWritten) {
  Pins pins;
  const GatheredUnit held(pins, 5, nullptr);
  EXPECT_TRUE(pins.written.empty());
  held.mark_written();
  EXPECT_EQ(pins.written, std::vector<int>{5});
}

TEST(GatheredUnit, HoldsNothingByDefault) {
  const GatheredUnit nothing;
  EXPECT_EQ(nothing.unit(), -1);
  EXPECT_EQ(nothing.data(), nullptr);
}

TEST(GatheredUnit, ExceptionReleasesIt) {
  Pins pins;
  EXPECT_THROW(
      {
        const GatheredUnit held(pins, 3, nullptr);
        throw 1;
      },
      int);
  EXPECT_EQ(pins.unpinned, std::vector<int>{3});
}

}  // namespace
}  // namespace zero
