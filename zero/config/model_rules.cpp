#include "zero/config/model_rules.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "zero/base/check.h"

namespace zero {
namespace {

using Words = std::string_view;

constexpr std::array kTokens{Words("text"), Words("tokens")};
constexpr std::array kTexts{Words("tsv"), Words("word_order")};
constexpr std::array kRows{Words("mnist"), Words("images"), Words("csv")};
constexpr std::array kImages{Words("mnist"), Words("images")};
constexpr std::array kPictures{Words("images")};
constexpr std::array kTokenFiles{Words("tokens")};
constexpr std::array kTable{Words("csv")};
constexpr std::array kImagesOrTokens{Words("mnist"), Words("images"), Words("text"), Words("tokens")};

constexpr std::array kGpt2Keys{Words("model.layers"),  Words("model.width"), Words("model.heads"),
                               Words("model.context"), Words("model.vocab"), Words("model.dropout")};
constexpr std::array kLlamaKeys{Words("model.layers"),        Words("model.width"),      Words("model.heads"),
                                Words("model.hidden"),        Words("model.kv_heads"),   Words("model.context"),
                                Words("model.vocab"),         Words("model.rope_theta"), Words("model.norm_eps"),
                                Words("model.tie_embeddings")};
constexpr std::array kBertKeys{Words("model.layers"), Words("model.width"),   Words("model.heads"),
                               Words("model.hidden"), Words("model.context"), Words("model.vocab"),
                               Words("model.dropout")};
constexpr std::array kMlpKeys{Words("model.sizes")};
constexpr std::array kRecurrentKeys{Words("model.layers"), Words("model.hidden"), Words("model.context"),
                                    Words("model.vocab"), Words("model.dropout")};

constexpr std::array kModelRules{
    ModelRule{.name = "gpt2", .kinds = kTokens, .keys = kGpt2Keys, .has_blocks = true},
    ModelRule{.name = "llama", .kinds = kTokens, .keys = kLlamaKeys, .has_blocks = true},
    ModelRule{.name = "bert", .kinds = kTexts, .keys = kBertKeys, .has_blocks = true},
    ModelRule{.name = "mlp", .kinds = kRows, .keys = kMlpKeys},
    ModelRule{.name = "cnn", .kinds = kImages, .keys = {}},
    ModelRule{.name = "rnn", .kinds = kImagesOrTokens, .keys = kRecurrentKeys},
    ModelRule{.name = "lstm", .kinds = kImagesOrTokens, .keys = kRecurrentKeys},
    ModelRule{.name = "gru", .kinds = kImagesOrTokens, .keys = kRecurrentKeys},
    ModelRule{.name = "linear", .kinds = kTable, .keys = {}},
};

constexpr std::array kOfEveryModel{Words("model.name"), Words("model.init")};

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

template <typename Holds>
std::string models_where(Holds holds) {
  std::vector<std::string_view> names;
  for (const ModelRule& rule : kModelRules)
    if (holds(rule)) names.push_back(rule.name);
  return one_of(names);
}

}  // namespace

bool ModelRule::reads(std::string_view kind) const {
  return contains(kinds, kind);
}

bool ModelRule::takes(std::string_view key) const {
  return !key.starts_with("model.") || contains(kOfEveryModel, key) || contains(keys, key);
}

std::span<const ModelRule> model_rules() {
  return kModelRules;
}

const ModelRule& model_rule(std::string_view name) {
  const auto* const found = std::ranges::find(kModelRules, name, &ModelRule::name);
  ZERO_CHECK(found != kModelRules.end(), "no rule for model {}", name);
  return *found;
}

std::string models_that_take(std::string_view key) {
  return models_where([&](const ModelRule& rule) { return rule.takes(key); });
}

std::string models_that_read(std::string_view kind) {
  return models_where([&](const ModelRule& rule) { return rule.reads(kind); });
}

bool has_context(std::string_view kind) {
  return contains(kTokens, kind) || contains(kTexts, kind);
}

std::span<const std::string_view> kinds_that_take(std::string_view key) {
  if (key == "data.words" || key == "data.vocab") return kTexts;
  if (key == "data.augment") return kImages;
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
