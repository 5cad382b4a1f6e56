#include "app/config/toml_source.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

const Setting& find(const std::vector<Setting>& settings, std::string_view name) {
  return *std::find_if(settings.begin(), settings.end(), [&](const Setting& setting) { return setting.name == name; });
}

TEST(TomlSource, FlattensSectionsAndKeepsLines) {
  const auto settings = parse_toml("[train]\nsteps = 5\n\n[model]\nsizes = [1, 2]\n", "c.toml");
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(find(settings, "train.steps").origin, "c.toml:2");
  EXPECT_EQ(find(settings, "train.steps").value, Value(std::int64_t{5}));
  EXPECT_EQ(find(settings, "model.sizes").origin, "c.toml:5");
  EXPECT_EQ(find(settings, "model.sizes").text, "[1, 2]");
}

TEST(TomlSource, DottedKeysEqualSections) {
  EXPECT_EQ(find(parse_toml("zero.stage = 2", "c.toml"), "zero.stage").value, Value(std::int64_t{2}));
}

TEST(TomlSource, EqualTablesFormOneArray) {
  const auto settings =
      parse_toml("[optimizer]\nlr = 1\n[[optimizer.group]]\nlr_scale = 2\n[[optimizer.group]]\n", "c.toml");
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(find(settings, "optimizer.group").text, "[{lr_scale = 2}, {}]");
  EXPECT_EQ(find(settings, "optimizer.group").origin, "c.toml:3, 5") << "errors of a table name one of these lines";
}

TEST(TomlSource, AnEmptySectionIsNotLost) {
  const auto settings = parse_toml("[modle]\n", "c.toml");
  ASSERT_EQ(settings.size(), 1u);
  EXPECT_EQ(settings[0].name, "modle");
}

// The error also names the file.
TEST(TomlSource, SyntaxErrorNamesLineAndColumn) {
  const std::string message = message_of<ConfigError>([] { parse_toml("[train]\nsteps = = 5\n", "c.toml"); });
  EXPECT_TRUE(message.starts_with("c.toml:2:9: not TOML:")) << message;
}

TEST(TomlSource, InvalidKeyCharacterNamesItsLine) {
  // The library only has an assertion for this.
  for (const char* header : {"[\x18x]", "[^x]", "[[=x]]"}) {
    const std::string text = std::string("[train]\nsteps = 5\n") + header + "\nbatch = 2\n";
    const std::string message = message_of<ConfigError>([&] { parse_toml(text, "c.toml"); });
    EXPECT_TRUE(message.starts_with("c.toml:3")) << message;
    EXPECT_TRUE(says(message, "not TOML")) << header;
  }
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse_toml("[^", "c.toml"); }), "c.toml:1"));
}

TEST(TomlSource, AKeyTwiceIsRefused) {
  EXPECT_NE(message_of<ConfigError>([] { parse_toml("[train]\nsteps = 1\nsteps = 2\n", "c.toml"); }), "");
}

// The stack does not overflow.
TEST(TomlSource, DeepNestingIsAnError) {
  const std::string deep = "a = " + std::string(100'000, '[');
  EXPECT_NE(message_of<ConfigError>([&] { parse_toml(deep, "c.toml"); }), "");
}

TEST(TomlSource, AMissingFileIsNamed) {
  const std::string message = message_of<ConfigError>([] { read_toml("/no/such/file.toml"); });
  EXPECT_TRUE(message.starts_with("/no/such/file.toml: No such file")) << message;
}

TEST(TomlSource, AFolderIsNoConfiguration) {
  const TemporaryFolder scratch;
  EXPECT_NE(message_of<ConfigError>([&] { read_toml(scratch.path()); }).find("a folder"), std::string::npos);
}

TEST(TomlSource, RefusesOversizedFiles) {
  const TemporaryFolder scratch;
  const auto file = scratch.write("input.txt", std::string(kMaxConfigBytes + 1, '#'));
  EXPECT_NE(message_of<ConfigError>([&] { read_toml(file); }).find("not a configuration"), std::string::npos);
  const auto fits = scratch.write("fits.toml", std::string(kMaxConfigBytes, '#'));
  EXPECT_TRUE(read_toml(fits).empty());
}

TEST(TomlSource, RefusesInvalidUtf8) {
  EXPECT_NE(message_of<ConfigError>([] { parse_toml("[run]\ndir = \"\xff\"\n", "c.toml"); }), "");
}

}  // namespace
}  // namespace zero
