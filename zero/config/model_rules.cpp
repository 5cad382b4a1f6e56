#include "zero/config/model_rules.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "zero/train/model_table.h"

namespace zero {
namespace {

constexpr std::array kTokenFiles{std::string_view("tokens")};
constexpr std::array kPictures{std::string_view("images")};

template <typename Holds>
std::string models_where(Holds holds) {
  std::vector<std::string_view> names;
  for (const ModelRow& row : kModelTable)
    if (holds(row)) names.push_back(row.name);
  return one_of(names);
}

}  // namespace

std::string models_that_take(std::string_view key) {
  return models_where([&](const ModelRow& row) { return row.takes(key); });
}

std::string models_that_read(std::string_view kind) {
  return models_where([&](const ModelRow& row) { return row.reads(kind); });
}

bool has_context(std::string_view kind) {
  const auto is_one_of = [kind](const auto& kinds) { return std::ranges::find(kinds, kind) != kinds.end(); };
  return is_one_of(model_words::kTokens) || is_one_of(model_words::kTexts);
}

std::span<const std::string_view> kinds_that_take(std::string_view key) {
  if (key == "data.words" || key == "data.vocab") return model_words::kTexts;
  if (key == "data.augment") return model_words::kImages;
  if (key == "data.channels") return kPictures;
  if (key == "data.tokenizer") return kTokenFiles;
  return {};
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

}  // namespace zero
