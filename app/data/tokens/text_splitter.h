// TextSplitter: cuts a text into the pieces that a byte-pair tokenizer never joins, by a regular expression.
//
//   TextSplitter splitter(TextSplitter::kGpt2);
//   splitter.split("It's 42", [](std::string_view piece) { ... });   // "It", "'s", " 42"
//
// What the expression does not match is a piece, too; together the pieces are the text, byte for byte. Bytes that are no
// UTF-8 are pieces of their own. Expressions are PCRE2's, with Unicode's classes, as tokenizer.json has them. Immutable;
// any number of threads may split.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace zero {

class TextSplitter {
 public:
  // GPT-2's own (Radford et al., 2019): contractions, letters, digits and other characters, each with a space before.
  static constexpr std::string_view kGpt2 =
      R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  // Throws ConfigError(key, path) for an expression that does not compile.
  explicit TextSplitter(std::string_view expression, std::string_view key = "data.tokenizer",
                        std::string_view path = "");

  // Local. Throws Error for a text that the expression does not get through.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code
};

}  // namespace zero
