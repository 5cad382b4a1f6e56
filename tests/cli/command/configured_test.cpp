#include "app/cli/command/configured.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

using Words = std::vector<std::string>;

struct Parsed {
  CLI::App app{"Does something.", "zero verb"};
  bool flag = false;
  ConfigArguments config;
  bool go_on = false;

  explicit Parsed(const Words& words) : config((app.add_flag("--flag", flag), app)) {
    go_on = config.parse(app, words);
  }
};

TEST(ConfigArguments, KeysAndFlagsMayBeMixed) {
  const Parsed parsed({"--train.steps", "7", "--flag", "--zero.stage=1"});
  EXPECT_TRUE(parsed.go_on);
  EXPECT_TRUE(parsed.flag);
  const LoadedConfig loaded = parsed.config.load(/*check_files=*/false);
  EXPECT_EQ(loaded.config.train.steps, 7);
  EXPECT_EQ(loaded.config.engine.stage, 1);
}

TEST(ConfigArguments, MeanTheSameToOtherCommands) {
  const TemporaryFolder folder;
  const auto file = folder.write("c.toml", "[train]\nsteps = 9\n").string();
  const Parsed first({file, "--run.dir", "a b=c", "--optimizer.betas", "[0.5, 0.25]", "--data.path="});
  const Parsed second(first.config.arguments());
  EXPECT_EQ(second.config.load(false).config, first.config.load(false).config);
  EXPECT_EQ(second.config.load(false).config.run.dir, "a b=c");
  EXPECT_EQ(second.config.load(false).config.train.steps, 9);
}

TEST(ConfigArguments, KeyWithoutSectionIsAMistake) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { Parsed({"--stage", "2"}); }), "did you mean '--zero.stage'?"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { Parsed({"--flga"}); }), "did you mean '--flag'?"));
}

TEST(ConfigArguments, FilesAreLookedAtWhenAsked) {
  const Parsed parsed({"--data.path", "/no/such/file"});
  EXPECT_NO_THROW(parsed.config.load(/*check_files=*/false));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { parsed.config.load(/*check_files=*/true); }), "no such file"));
}

TEST(ConfigArguments, KeysPrintTheReferenceAndEnd) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(Parsed({"--keys", "comm"}).go_on);
  EXPECT_TRUE(says(testing::internal::GetCapturedStdout(), "timeout = \"60s\""));
  EXPECT_TRUE(says(message_of<ConfigError>([] { Parsed({"--keys", "cmom"}); }), "did you mean 'comm'?"));
}

TEST(ConfigArguments, HelpListsTheKeys) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(Parsed({"--help"}).go_on);
  EXPECT_TRUE(says(testing::internal::GetCapturedStdout(), "[optimizer] name = \"adamw\""));
}

}  // namespace
}  // namespace zero::cli
