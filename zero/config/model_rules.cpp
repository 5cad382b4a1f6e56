#include "zero/config/model_rules.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "zero/optim/rule_registry.h"
#include "zero/train/model_table.h"

namespace zero {
namespace {

constexpr std::array kTokenFiles{std::string_view("tokens")};
constexpr std::array kPictures{std::string_view("images")};

// "a, b or c": the names of the rows for which that holds.
template <typename Rows, typename Holds>
std::string names_where(const Rows& rows, Holds holds) {
  std::vector<std::string_view> names;
  for (const auto& row : rows)
    if (holds(row)) names.push_back(row.name);
  return one_of(names);
}

std::string joined(std::span<const std::string_view> names, std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? before_last : ", ", names[i]);
  return text;
}

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
  if (key == "data.augment") return model_words::kImages;
  if (key == "data.channels") return kPictures;
  if (key == "data.tokenizer") return kTokenFiles;
  return {};
}

std::string one_of(std::span<const std::string_view> names) {
  return joined(names, " or ");
}

std::string all_of(std::span<const std::string_view> names) {
  return joined(names, " and ");
}

}  // namespace zero
