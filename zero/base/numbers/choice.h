// Choice: a word that a key accepts, and its value. A table of choices lists all words.
//
//   kWordsOf<kDTypes>                                // "fp32", "bf16", "fp16"
//   value_of(kDTypes, "train.dtype", "bf16")         // DType::kBFloat16
//
// Local; values only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "zero/base/error/error.h"

namespace zero {

template <typename T>
struct Choice {
  std::string_view word;
  T value;
};

template <const auto& kTable>
inline constexpr auto kWordsOf = [] {
  std::array<std::string_view, kTable.size()> words;
  std::ranges::transform(kTable, words.begin(), [](const auto& choice) { return choice.word; });
  return words;
}();

// Returns the value of a word. Throws ConfigError under `key` if the table does not have the word.
template <typename T, std::size_t kSize>
T value_of(const std::array<Choice<T>, kSize>& table, std::string_view key, std::string_view word) {
  std::string words;
  for (const Choice<T>& choice : table) {
    if (choice.word == word) return choice.value;
    words += (words.empty() ? "" : ", ") + std::string(choice.word);
  }
  throw ConfigError(key, word, "not an allowed value", "use one of: " + words);
}

}  // namespace zero
