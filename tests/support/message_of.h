// message_of<ConfigError>(action): the what() of an expected error. Without such an error the test fails.
//
//   EXPECT_TRUE(says(message_of<ConfigError>([&] { open(path); }), "no such file"));
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace zero {

template <typename Error, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline ::testing::AssertionResult says(std::string_view text, std::string_view part) {
  if (text.find(part) != text.npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

}  // namespace zero
