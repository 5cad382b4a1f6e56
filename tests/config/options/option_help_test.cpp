#include "app/config/options/option_help.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule_registry.h"

#include "app/config/options/option.h"
#include "app/config/toml_source.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(OptionHelp, OverviewListsAllOnOneScreen) {
  const std::string overview = options_overview();
  for (const auto& option : options()) {
    EXPECT_NE(overview.find(" " + std::string(option.key()) + " = "), std::string::npos) << option.name;
  }
  EXPECT_LE(std::count(overview.begin(), overview.end(), '\n'), 30);
}

TEST(OptionHelp, ReferenceExplainsEveryKey) {
  const std::string reference = options_reference("");
  for (const auto& option : options()) {
    EXPECT_NE(reference.find(help_of(option)), std::string::npos) << option.name;
    EXPECT_NE(reference.find(allowed(option)), std::string::npos) << option.name;
    EXPECT_NE(reference.find(environment_name(option)), std::string::npos) << option.name;
  }
}

TEST(OptionHelp, OptimizerKeyNamesItsRules) {
  const auto help = [](std::string_view name) { return help_of(*find_option(name)); };
  EXPECT_EQ(help("optimizer.trust_ratio"),
            "smallest and largest trust ratio: a parameter's norm over the norm of its direction. For lamb");
  EXPECT_EQ(help("optimizer.momentum"), "momentum. For sgd; for muon: 0.95 if not given");
  EXPECT_EQ(
      help("optimizer.betas"),
      "decay rates of the moments. For adamw, adam, lamb and adamw8bit; for lion: weights of its two sums; for muon: "
      "those of its adamw");
  EXPECT_EQ(help("optimizer.lr"), "highest learning rate. For adafactor: that of a relative step, 0.01 if not given");
  EXPECT_EQ(
      help("optimizer.weight_decay"),
      "weight decay of tensors with two or more dimensions. For adam and sgd: added to the gradient, 0.0 if not given; "
      "for adafactor: 0.0 if not given");
  EXPECT_EQ(help("train.steps"), find_option("train.steps")->help) << "does not depend on the rule";
}

TEST(OptionHelp, ModelKeyNamesItsModels) {
  const auto help = [](std::string_view name) { return help_of(*find_option(name)); };
  EXPECT_EQ(help("model.width"), "embedding width. For gpt2, llama and bert");
  EXPECT_EQ(help("model.sizes"), "features of each layer, the input first. For mlp");
  EXPECT_EQ(help("model.init"), find_option("model.init")->help) << "does not depend on the model";
}

TEST(OptionHelp, OptimizerKeysMatchTheRules) {
  for (const Option& option : options())
    EXPECT_TRUE(std::ranges::any_of(kRuleTable, [&](const RuleRow& row) { return row.reads(option.name); }))
        << option.name;
  for (const RuleRow& row : kRuleTable)
    for (const RuleKey& key : row.keys) EXPECT_NE(find_option(key.name), nullptr) << row.name << " reads " << key.name;
}

TEST(OptionHelp, ReferenceIsTheDefaultConfiguration) {
  Config config;
  for (const auto& setting : parse_toml(options_reference(""), "reference")) {
    ASSERT_NE(find_option(setting.name), nullptr) << setting.name;
    set_option(config, *find_option(setting.name), setting);
  }
  EXPECT_EQ(config, Config{});
}

TEST(OptionHelp, SectionReferenceHasOnlyThatSection) {
  const std::string reference = options_reference("zero");
  EXPECT_NE(reference.find("[zero]"), std::string::npos);
  EXPECT_EQ(reference.find("[train]"), std::string::npos);
}

TEST(OptionHelp, KeyReferenceHasOnlyThatKey) {
  const std::string reference = options_reference("zero.stage");
  EXPECT_TRUE(reference.starts_with("[zero]\n# "));
  EXPECT_TRUE(reference.ends_with("\nstage = 3\n"));
}

TEST(OptionHelp, UnknownSectionSuggestsTheNearest) {
  EXPECT_NE(message_of<ConfigError>([] { options_reference("trian"); }).find("did you mean 'train'?"),
            std::string::npos);
}

}  // namespace
}  // namespace zero
