// TextSplitter: cuts a text into the pieces that a byte-pair tokenizer never joins, by a regular expression.
//
//   TextSplitter splitter(TextSplitter::kGpt2);
//   splitter.split("It's 42", [](std::string_view piece) { ... });   // "It", "'s", " 42"
//
// Text that the expression does not match is also a piece: all pieces together equal the text. Bytes that are not UTF-8
// are separate pieces. Expressions are PCRE2's with Unicode's classes, as in tokenizer.json.
//
// Immutable: any number of threads may split. Local.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace zero {

class TextSplitter {
 public:
  // GPT-2's expression (Radford et al., 2019): contractions; letters, digits or other characters after an optional
  // space.
  static constexpr std::string_view kGpt2 =
      R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  // Throws ConfigError(key, path) if the expression does not compile.
  explicit TextSplitter(std::string_view expression, std::string_view key = "data.tokenizer",
                        std::string_view path = "");

  // Calls `take` for each piece. Throws Error if matching fails.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const;

  // Do the parts [0, at) and [at, end) have the pieces of the whole? True only for places that are certain with
  // expressions of the form of GPT-2's and Llama 3's. These are after a letter or digit and before a space, a line end
  // or punctuation, if the expression ends a piece there. An apostrophe is no such place, because it may begin a
  // contraction. After punctuation, Llama 3's pieces continue with line ends.
  bool may_cut(std::string_view text, std::size_t at) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code
};

}  // namespace zero
