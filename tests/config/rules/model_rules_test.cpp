#include "app/config/rules/model_rules.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "app/config/options/option.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

TEST(ModelRules, EveryModelHasKnownKeys) {
  const auto names = find_option("model.name")->choices(), kinds = find_option("data.kind")->choices();
  ASSERT_EQ(names.size(), kModelTable.size());
  for (const std::string_view name : names) {
    const ModelRow& row = model_row(name);
    EXPECT_FALSE(row.kinds.empty()) << name;
    for (const std::string_view key : row.keys) EXPECT_NE(find_option(key), nullptr) << key;
    for (const std::string_view key : row.pass_keys) EXPECT_NE(find_option(key), nullptr) << key;
    for (const std::string_view kind : row.kinds) EXPECT_NE(std::ranges::find(kinds, kind), kinds.end()) << kind;
    EXPECT_TRUE(row.takes("model.init") && row.takes("train.steps")) << name;
  }
}

TEST(ModelRules, EveryModelKeyBelongsToModels) {
  for (const Option& option : options()) EXPECT_NE(models_that_take(option.name), "") << option.name;
}

TEST(ModelRules, ModelsAreNamedByTheTable) {
  EXPECT_EQ(models_that_read("tsv"), "bert");
  EXPECT_EQ(models_that_read("csv"), "bert, mlp or linear");
  EXPECT_EQ(models_that_take("model.width"), "gpt2, llama or bert");
}

}  // namespace
}  // namespace zero
