#include "zero/base/files/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(Crc32c, HasTheSumsOfItsStandard) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
}

}  // namespace
}  // namespace zero
