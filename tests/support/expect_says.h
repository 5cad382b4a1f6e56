// expect_says(): expects that a text has each of some parts, and shows each missing part with the text.
#pragma once

#include <initializer_list>
#include <string_view>

#include "tests/support/message_of.h"

namespace zero {

inline void expect_says(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) EXPECT_TRUE(says(text, part));
}

}  // namespace zero
