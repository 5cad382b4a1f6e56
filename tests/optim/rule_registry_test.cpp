#include "zero/optim/rule_registry.h"

#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(RuleRegistry, RowNamesItsRuleAndNeeds) {
  const std::vector<OptimizerOptions> all = default_options();
  ASSERT_EQ(all.size(), kRuleTable.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RuleRow& row = kRuleTable[i];
    EXPECT_EQ(row_of(all[i]), &row) << row.name;
    EXPECT_EQ(&rule_row(row.name), &row) << "another row has the same name";
    const auto rule = make_update_rule(all[i]);
    EXPECT_EQ(rule->name(), row.name);
    EXPECT_EQ(name_of(all[i]), row.name);
    EXPECT_EQ(needs_of(*rule), row.needs) << row.name;
    EXPECT_EQ(row.others.empty(), row.needs != RuleNeeds::kMatrices) << row.name;
  }
}

TEST(RuleRegistry, OptionsFollowFromRowsKeysOnly) {
  const std::vector<std::pair<std::string_view, std::function<void(RuleKeys&)>>> changes{
      {"optimizer.lr", [](RuleKeys& keys) { keys.lr = 0.5; }},
      {"optimizer.betas",
       [](RuleKeys& keys) {
         keys.betas = {0.5, 0.6};
       }},
      {"optimizer.eps", [](RuleKeys& keys) { keys.eps = 0.5; }},
      {"optimizer.weight_decay", [](RuleKeys& keys) { keys.weight_decay = 0.5; }},
      {"optimizer.momentum", [](RuleKeys& keys) { keys.momentum = 0.5; }},
      {"optimizer.nesterov", [](RuleKeys& keys) { keys.nesterov = true; }},
      {"optimizer.trust_ratio",
       [](RuleKeys& keys) {
         keys.trust_ratio = {0.5, 0.6};
       }},
      {"optimizer.muon_scale", [](RuleKeys& keys) { keys.muon_scale = "match_rms_adamw"; }},
      {"optimizer.adamw_lr", [](RuleKeys& keys) { keys.adamw_lr = 0.5; }},
      {"optimizer.beta2_decay", [](RuleKeys& keys) { keys.beta2_decay = -0.5; }},
      {"optimizer.eps1", [](RuleKeys& keys) { keys.eps1 = 0.5; }},
      {"optimizer.eps2", [](RuleKeys& keys) { keys.eps2 = 0.5; }},
      {"optimizer.clip", [](RuleKeys& keys) { keys.clip = 0.5; }}};
  for (const RuleRow& row : kRuleTable) {
    for (const auto& [key, change] : changes) {
      RuleKeys keys;
      change(keys);
      EXPECT_EQ(optimizer_options(row.name, keys) != optimizer_options(row.name, {}), row.reads(key))
          << row.name << ", " << key;
    }
    for (const RuleKey& key : row.keys)
      EXPECT_TRUE(key.name == "optimizer.group" ||
                  std::ranges::count(changes, key.name, [](const auto& change) { return change.first; }) == 1)
          << key.name << " is not tried";
  }
}

TEST(RuleRegistry, UnknownNameListsKnownNames) {
  EXPECT_EQ(message_of<ConfigError>([] { optimizer_options("adagrad", {}); }),
            "optimizer.name = adagrad: no such optimizer\n  use " + rule_names());
  EXPECT_EQ(rule_names(RuleNeeds::kElements), "adamw, adam, sgd, lion or adamw8bit");
  EXPECT_EQ(rule_names(RuleNeeds::kMatrices), "muon");
}

TEST(RuleRegistry, UserRuleHasNoRow) {
  EXPECT_EQ(row_of(OwnRuleOptions{}), nullptr);
  EXPECT_EQ(name_of(OwnRuleOptions{}), "");
}

}  // namespace
}  // namespace zero
