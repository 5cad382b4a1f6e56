// A non-ASCII letter in place of a key ("Ќ = 1") caused undefined behaviour in the TOML library's table of white space.
// A build could accept it, refuse it or do anything else. Found by fuzzing.
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/toml_source.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(NonAsciiKey, InvalidKeyNamesItsLine) {
  for (const char* text : {"steps\u040a\n", "[train]\nsteps = 1\u00e9\n", "\u0416 = 1\n", "a\u3042 = 1\n"}) {
    const std::string message = message_of<ConfigError>([&] { parse_toml(text, "c.toml"); });
    EXPECT_TRUE(message.starts_with("c.toml:")) << message;
    EXPECT_NE(message.find("not TOML"), std::string::npos) << message;
  }
}

TEST(NonAsciiKey, StringsAndCommentsKeepThem) {
  const auto settings = parse_toml("# \u040a\npath = \"\u00e9\u040a\u3042\"\n", "c.toml");
  ASSERT_EQ(settings.size(), 1u);
  EXPECT_EQ(settings[0].text, "\"\u00e9\u040a\u3042\"");
}

}  // namespace
}  // namespace zero
