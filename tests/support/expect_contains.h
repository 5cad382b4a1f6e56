// EXPECT_CONTAINS: expects that a text has a part, and shows both if it has not.
#pragma once

#include <string>

#include <gtest/gtest.h>

#define EXPECT_CONTAINS(text, part)                                                               \
  do {                                                                                            \
    const std::string whole = (text);                                                             \
    EXPECT_NE(whole.find((part)), std::string::npos) << "'" << (part) << "' is not in " << whole; \
  } while (false)
