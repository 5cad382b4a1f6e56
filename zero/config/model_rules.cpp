#include "zero/config/model_rules.h"

#include <algorithm>
#include <array>

#include "zero/base/name_lists.h"
#include "zero/optim/rule_registry.h"
#include "zero/train/model_table.h"

namespace zero {
namespace {

constexpr std::array kTokenFiles{std::string_view("tokens")};
constexpr std::array kPictures{std::string_view("images")};
constexpr std::array kNumberedClasses{std::string_view("mnist"), std::string_view("tsv")};

}  // namespace

std::string models_that_take(std::string_view key) {
  return names_where(kModelTable, [&](const ModelRow& row) { return row.takes(key); });
}

std::string models_that_read(std::string_view kind) {
  return names_where(kModelTable, [&](const ModelRow& row) { return row.reads(kind); });
}

std::string rules_that_read(std::string_view key) {
  return names_where(kRuleTable, [&](const RuleRow& row) { return row.reads(key); });
}

bool has_context(std::string_view kind) {
  const auto is_one_of = [kind](const auto& kinds) { return std::ranges::find(kinds, kind) != kinds.end(); };
  return is_one_of(model_words::kTokens) || is_one_of(model_words::kTexts);
}

std::span<const std::string_view> kinds_that_take(std::string_view key) {
  if (key == "data.words" || key == "data.vocab" || key == "data.lower_case") return model_words::kTexts;
  if (key == "data.augment" || key == "data.mean" || key == "data.std") return model_words::kImages;
  if (key == "data.channels" || key == "data.size") return kPictures;
  if (key == "data.classes") return kNumberedClasses;
  if (key == "data.tokenizer") return kTokenFiles;
  return {};
}

}  // namespace zero
