#include "app/config/options/suggest.h"

#include <array>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace zero {
namespace {

constexpr std::array<std::string_view, 4> kWords{"train.steps", "train.batch", "optimizer.lr", "zero.stage"};

TEST(EditDistance, CountsSlipsOfEachKind) {
  EXPECT_EQ(edit_distance("stage", "stage"), 0u);
  EXPECT_EQ(edit_distance("stage", "stge"), 1u);
  EXPECT_EQ(edit_distance("stage", "staage"), 1u);
  EXPECT_EQ(edit_distance("stage", "stabe"), 1u);
  EXPECT_EQ(edit_distance("stage", "satge"), 1u) << "two swapped neighbours are one mistake";
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(EditDistance, IsSymmetricAndZeroIfEqual) {
  rc::check([](const std::string& a, const std::string& b) {
    RC_ASSERT(edit_distance(a, b) == edit_distance(b, a));
    RC_ASSERT((edit_distance(a, b) == 0) == (a == b));
  });
}

TEST(Nearest, FindsTheNearWord) {
  EXPECT_EQ(nearest("train.stesp", kWords), "train.steps");
  EXPECT_EQ(nearest("zero.stages", kWords), "zero.stage");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("xyzzy", kWords), std::nullopt);
  EXPECT_EQ(nearest("", kWords), std::nullopt);
  EXPECT_EQ(did_you_mean("xyzzy", kWords), "");
}

TEST(Nearest, SkipsAbsurdlyLongWords) {
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), kWords), std::nullopt);
}

}  // namespace
}  // namespace zero
