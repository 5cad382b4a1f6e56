#include "zero/config/option_help.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/config/option.h"
#include "zero/config/toml_source.h"

#include "../message_of.h"

namespace zero {
namespace {

TEST(OptionHelp, OverviewHasEveryKeyAndFitsOnAScreen) {
  const std::string overview = options_overview();
  for (const auto& option : options()) {
    EXPECT_NE(overview.find(" " + std::string(option.key()) + " = "), std::string::npos) << option.name;
  }
  EXPECT_LE(std::count(overview.begin(), overview.end(), '\n'), 30);
}

TEST(OptionHelp, ReferenceExplainsEveryKey) {
  const std::string reference = options_reference("");
  for (const auto& option : options()) {
    EXPECT_NE(reference.find(std::string(option.help)), std::string::npos) << option.name;
    EXPECT_NE(reference.find(allowed(option)), std::string::npos) << option.name;
    EXPECT_NE(reference.find(environment_name(option)), std::string::npos) << option.name;
  }
}

TEST(OptionHelp, ReferenceIsAConfigurationWithTheDefaults) {
  Config config;
  for (const auto& setting : parse_toml(options_reference(""), "reference")) {
    ASSERT_NE(find_option(setting.name), nullptr) << setting.name;
    set_option(config, *find_option(setting.name), setting);
  }
  EXPECT_EQ(config, Config{});
}

TEST(OptionHelp, ReferenceOfASectionHasThatSectionOnly) {
  const std::string reference = options_reference("zero");
  EXPECT_NE(reference.find("[zero]"), std::string::npos);
  EXPECT_EQ(reference.find("[train]"), std::string::npos);
}

TEST(OptionHelp, ReferenceOfAKeyHasThatKeyOnly) {
  const std::string reference = options_reference("zero.stage");
  EXPECT_TRUE(reference.starts_with("[zero]\n# "));
  EXPECT_TRUE(reference.ends_with("\nstage = 3\n"));
}

TEST(OptionHelp, AnUnknownSectionGetsTheNearOne) {
  EXPECT_NE(message_of<ConfigError>([] { options_reference("trian"); }).find("did you mean 'train'?"),
            std::string::npos);
}

}  // namespace
}  // namespace zero
