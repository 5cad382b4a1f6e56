#include "app/config/command_line.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

CommandLine split(const std::vector<std::string>& arguments) {
  return split_command_line(arguments);
}

TEST(CommandLineSplit, TakesBothSpellingsAndKeepsFlags) {
  const std::vector<std::string> arguments{"c.toml", "--train.steps", "5", "-n", "2", "--run.dir=a=b", "--overwrite"};
  const CommandLine line = split_command_line(arguments);
  ASSERT_EQ(line.overrides.size(), 2u);
  EXPECT_EQ(line.overrides[0].name, "train.steps");
  EXPECT_EQ(line.overrides[1].text, "a=b");
  EXPECT_EQ(line.rest, (std::vector<std::string>{"c.toml", "-n", "2", "--overwrite"}));
}

TEST(CommandLineSplit, AMissingValueIsNamed) {
  EXPECT_NE(message_of<ConfigError>([] { split({"--zero.stage"}); }).find("allowed: 0, 1, 2, 3"), std::string::npos);
  EXPECT_NE(message_of<ConfigError>([] { split({"--zero.stge"}); }).find("did you mean 'zero.stage'?"),
            std::string::npos);
}

TEST(CommandLineSplit, DottedFlagValueIsNoKey) {
  const std::vector<std::string> arguments{"--prompt=v1.0", "a.toml"};
  EXPECT_TRUE(split_command_line(arguments).overrides.empty());
}

}  // namespace
}  // namespace zero
