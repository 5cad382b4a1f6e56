#include "zero/base/numbers/choice.h"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::array<Choice<std::optional<int>>, 3> kSizes{{{"none", std::nullopt}, {"small", 1}, {"large", 2}}};

TEST(Choice, AWordHasItsValue) {
  EXPECT_EQ(value_of(kSizes, "train.size", "large"), 2);
  EXPECT_EQ(value_of(kSizes, "train.size", "none"), std::nullopt);
}

TEST(Choice, RefusesOtherWordsWithTheList) {
  EXPECT_EQ(message_of<ConfigError>([] { value_of(kSizes, "train.size", "huge"); }),
            "train.size = huge: not an allowed value\n  use one of: none, small, large");
}

}  // namespace
}  // namespace zero
