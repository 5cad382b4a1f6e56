// The real data sets some tests want: $ZERO_TEST_DATA, else ../shared/data beside the source.
//
//   const auto text = test_data("tinyshakespeare.txt");
//   if (text.empty()) GTEST_SKIP() << kNoTestData;
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "this_build.h"

namespace zero {

inline constexpr std::string_view kNoTestData = "the data set is absent; ZERO_TEST_DATA may say where it is";

// Empty when it is absent.
inline std::filesystem::path test_data(std::string_view name) {
  const char* const folder = std::getenv("ZERO_TEST_DATA");
  const auto root = folder != nullptr ? std::filesystem::path(folder)
                                      : std::filesystem::path(built::kSourceFolder).parent_path() / "shared" / "data";
  return std::filesystem::exists(root / name) ? root / name : std::filesystem::path();
}

}  // namespace zero
