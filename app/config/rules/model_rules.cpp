#include "app/config/rules/model_rules.h"

#include <algorithm>
#include <array>

#include "zero/base/text/name_lists.h"
#include "zero/optim/rule_registry.h"

#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

constexpr std::array kTokenFiles{std::string_view("tokens")};
constexpr std::array kPictures{std::string_view("images")};
constexpr std::array kNumberedClasses{std::string_view("mnist"), std::string_view("tsv"), std::string_view("csv")};
constexpr std::array kTables{std::string_view("tsv"), std::string_view("csv")};

bool is_of_texts(std::string_view key) {
  return key == "data.words" || key == "data.vocab" || key == "data.lower_case";
}

bool is_one_of(std::string_view kind, std::span<const std::string_view> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
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

bool has_context(const DataOptions& data) {
  if (data.kind == DataKind::kCsv) return !data.text_column.empty();
  return is_one_of(name_of(data.kind), model_words::kTokens) || is_one_of(name_of(data.kind), model_words::kTexts);
}

std::span<const std::string_view> kinds_that_take(std::string_view key) {
  if (is_of_texts(key)) return model_words::kTexts;
  if (key == "data.augment" || key == "data.mean" || key == "data.std") return model_words::kImages;
  if (key == "data.channels" || key == "data.size") return kPictures;
  if (key == "data.classes") return kNumberedClasses;
  if (key == "data.text_column" || key == "data.label_column" || key == "data.labels") return kTables;
  if (key == "data.columns") return model_words::kTable;
  if (key == "data.tokenizer") return kTokenFiles;
  return {};
}

bool data_reads(const DataOptions& data, std::string_view key) {
  const auto kinds = kinds_that_take(key);
  if (!kinds.empty() && !is_one_of(name_of(data.kind), kinds)) return false;
  if (data.kind != DataKind::kCsv) return true;
  return data.text_column.empty() ? !is_of_texts(key) : key != "data.columns";
}

}  // namespace zero
