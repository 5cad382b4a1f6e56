#include "zero/base/error/check.h"

#include <string>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::string message_of(void (*failing)()) {
  try {
    failing();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

TEST(Check, SaysWhereWhatAndWhy) {
  const std::string message = message_of([] { ZERO_CHECK(1 + 1 == 3, "unit {} of {}", "h.0", 12); });
  EXPECT_NE(message.find("check_test.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find("1 + 1 == 3 does not hold: unit h.0 of 12"), std::string::npos) << message;
  EXPECT_NE(message.find("report"), std::string::npos) << message;
}

TEST(Check, NeedsNoMessage) {
  const std::string message = message_of([] { ZERO_CHECK(false); });
  EXPECT_NE(message.find("false does not hold\n"), std::string::npos) << message;
}

TEST(Check, EvaluatesMessageOnlyOnFailure) {
  int conditions = 0;
  int messages = 0;
  ZERO_CHECK(++conditions == 1, "{}", ++messages);
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(messages, 0);
}

TEST(Check, IsOneStatement) {
  bool reached = false;
  if (reached)
    ZERO_CHECK(false);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace zero
